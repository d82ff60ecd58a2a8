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

_LIMITS: Final = Limits()
_HOUR: Final = 3_600_000
_DAY: Final = 24 * _HOUR


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What `[server]` says. Durations in ms; `port` 0 lets the system choose. `log` comes from the command line."""

    host: str = "127.0.0.1"
    port: int = 8787
    data: Path = Path("leaseway-data")
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
class Keep:
    """How long ended items stay, ms; `fetched` are those finished ones whose producer saw it."""

    fetched: int = _HOUR
    finished: int = 7 * _DAY
    failed: int = 90 * _DAY
    dead: int = 90 * _DAY
    cancelled: int = _DAY
    expired: int = _DAY


@dataclass(frozen=True, slots=True)
class Later:
    """What a queue's configuration says to later versions. `dedupe_window` in ms."""

    dedupe_window: int = _DAY
    max_bulk_items: int = 1_000
    keep: Keep = field(default_factory=Keep)


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """What `[queues.<name>]` says: the queue, and who may do what there.

    `schema_files` is a hash of all that its folder of schemas holds, "" without one.
    """

    queue: Queue
    grants: Grants
    later: Later = field(default_factory=Later)
    schema_files: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What was said outside the file: the environment's variables that are ours, and the command line's options."""

    environ: Mapping[str, str] = field(default_factory=dict)
    listen: str | None = None
    store: str | None = None
    queues: str | None = None
    allow_origins: tuple[str, ...] = ()
    log: LogFormat = "json"
    open_to_the_network: bool = False


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration. `file` is where it was read; None is the default, without a file.

    `notes` are for the people who run it: what the file says that this version does not act on.
    """

    file: Path | None
    server: ServerConfig
    queues: dict[str, QueueConfig]
    notes: tuple[str, ...] = ()
    outside: Outside = field(default_factory=Outside)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
