"""What a configuration says, as frozen dataclasses: what there is to say, and what holds where nothing is said.

Nothing is read or checked here. docs/configuration.md says what each key means.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from pathlib import Path
from typing import Final

from leaseway_server.core.access import Grants
from leaseway_server.core.limits import ServerLimits
from leaseway_server.core.queue import Limits, Queue
from leaseway_server.log import LogFormat
from leaseway_server.store.place import Place, SqliteFolder

_LIMITS: Final = Limits()
_FOLDER: Final = SqliteFolder(Path("leaseway-data"))


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What `[server]` says. Durations in ms; `port` 0 lets the system choose. `log` comes from the command line."""

    host: str = "127.0.0.1"
    port: int = 8787
    store: Place = _FOLDER
    resume_grace: int = 30_000
    ping_interval: int = 15_000
    ping_timeout: int = 10_000
    max_message_bytes: int = _LIMITS.message_bytes
    admins: frozenset[str] = frozenset()
    allowed_origins: frozenset[str] = frozenset()
    limits: ServerLimits = field(default_factory=ServerLimits)
    subscriptions: int = _LIMITS.subscriptions
    ids_per_message: int = _LIMITS.ids
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = (IPv4Network("127.0.0.1"), IPv6Network("::1"))
    log: LogFormat = "json"

    @property
    def message_limits(self) -> Limits:
        """What it bounds in the messages of every queue."""
        return Limits(message_bytes=self.max_message_bytes, subscriptions=self.subscriptions, ids=self.ids_per_message)


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """What `[queues.<name>]` says: the queue, and who may do what there.

    `schema_files` is a hash of all that its folder of schemas holds, "" without one.
    """

    queue: Queue
    grants: Grants
    schema_files: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What was said outside the file: the environment's variables that are ours, and the command line's options.

    The address of a database may hold a password.
    """

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    listen: str | None = None
    store: str | None = field(default=None, repr=False)
    queues: str | None = None
    allow_origins: tuple[str, ...] = ()
    log: LogFormat = "json"
    open_to_the_network: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration. `file` is where it was read; None is the default, without a file."""

    file: Path | None
    server: ServerConfig
    queues: dict[str, QueueConfig]
    outside: Outside = field(default_factory=Outside)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
