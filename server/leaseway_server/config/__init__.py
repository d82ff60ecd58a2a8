"""The configuration: `leaseway.toml`, the environment and the command line, read, checked and compared.

`model` is what it says, `load` which keys there are and what they may not say together, `values` the kinds of values,
`table` how each mistake gets its file and key, `schemas` the folders of schemas, `changes` what a reload can change.
"""

from leaseway_server.config.changes import Changes, differences
from leaseway_server.config.load import QUEUE_NAME_RULE, STORE_KEY, config_of, load_config, reload_config
from leaseway_server.config.model import Config, QueueConfig, ServerConfig, is_loopback
from leaseway_server.config.table import ConfigRefused, Fault
from leaseway_server.core.limits import ServerLimits
from leaseway_server.core.queue import QUEUE_NAME

__all__ = [
    "QUEUE_NAME",
    "QUEUE_NAME_RULE",
    "STORE_KEY",
    "Changes",
    "Config",
    "ConfigRefused",
    "Fault",
    "QueueConfig",
    "ServerConfig",
    "ServerLimits",
    "config_of",
    "differences",
    "is_loopback",
    "load_config",
    "reload_config",
]
