"""What `notify.toml` says, as frozen dataclasses: what there is to say, and what holds where nothing is said.

Nothing is read or checked here: that is `notify_toml.py`'s. Durations are ms.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Literal, TypeAlias

from leaseway_notify.policy import BUILT_IN, MINUTE, Policies, TypePolicy
from leaseway_notify.profile import Channel

HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
STORE_SHARE: Final = 30_000
"""What the store may take of an attempt, when it is slow: the checks before a message is sent and the marks after."""
Transport: TypeAlias = Literal["off", "smtp", "provider"]
Security: TypeAlias = Literal["starttls", "tls", "none"]


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Where deliveries are posted and claimed. `lease` is what the queue's own configuration says."""

    url: str = "ws://127.0.0.1:8787/notification-deliveries"
    token: str | None = None
    lease: int = 5 * MINUTE


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """`dedupe_window`: so long an equal event is a duplicate."""

    dedupe_window: int = DAY


@dataclass(frozen=True, slots=True)
class OutboxSettings:
    """`repost_every`: how often is posted what is not known to be in the queue. `silence`: after how long the queue is
    asked again for a delivery that is due and of which nothing was heard. `portion`: so many at a time. `patience`: so
    long a post waits for the queue, and who notifies with it; then it is left for the next round."""

    repost_every: int = MINUTE
    silence: int = 6 * HOUR
    patience: int = 2_000
    portion: int = 100


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """`in_flight`: deliveries at a time, and in a claim. `longest_wait` caps a provider's Retry-After.

    `read_types`: an email of these types is not sent where the recipient has read it in the application.
    """

    in_flight: int = 25
    longest_wait: int = 3 * HOUR
    read_types: frozenset[str] = frozenset({"chat", "mention"})


@dataclass(frozen=True, slots=True)
class EmailSettings:
    """How mails leave. `timeout` bounds a whole mail. Tracking of openings and clicks is off unless it is turned on."""

    transport: Transport = "off"
    sender: str = ""
    name: str = ""
    product: str = ""
    host: str = "127.0.0.1"
    port: int = 587
    security: Security = "starttls"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    provider: str = ""
    provider_key: str | None = field(default=None, repr=False)
    timeout: int = 20_000
    tracking: bool = False
    templates: Path | None = None


@dataclass(frozen=True, slots=True)
class PushSettings:
    """How pushes leave. `keys` is the file of `leaseway-notify vapid new`; without one there are no pushes.

    `keep`: how long a push service keeps a push for a browser that is away. `allow_private` is for tests and demos:
    endpoints on private addresses are refused otherwise.
    """

    keys: Path | None = None
    subject: str = ""
    timeout: int = 10_000
    keep: int = DAY
    allow_private: bool = False


@dataclass(frozen=True, slots=True)
class StormSettings:
    """More than `most` deliveries to a recipient on a channel `within` so long are a storm: the rest wait for a digest
    that goes out `digest_after`."""

    most: int = 20
    within: int = 10 * MINUTE
    digest_after: int = HOUR


@dataclass(frozen=True, slots=True)
class KeepSettings:
    """How long things are kept, and how many go at a time."""

    tokens: int = 30 * DAY
    dead: int = 90 * DAY
    settled: int = 90 * DAY
    inbox: int = 365 * DAY
    portion: int = 100


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Where the service listens, and by which address its links lead to it; `internal_url` is the workers' one.

    `token` is what other programs say, `secret` what applications sign recipients' tokens with: `recipient_token.py`.
    `token_url` is the application's page that gives its user such a token; `origins` are the sites, besides the
    service's own, whose pages may show an inbox.
    """

    host: str = "127.0.0.1"
    port: int = 8790
    public_url: str = "http://127.0.0.1:8790"
    internal_url: str = "http://127.0.0.1:8790"
    token: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    token_url: str = ""
    origins: frozenset[str] = frozenset()


def http_url(host: str, port: int) -> str:
    """Where a server listens, as a URL without a slash at its end."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Settings:
    """All that `notify.toml` says. `store` is `sqlite:FILE` or a URL of PostgreSQL, which may hold a password."""

    store: str = field(default="sqlite:notify.db", repr=False)
    queue: QueueSettings = QueueSettings()
    plan: PlanSettings = PlanSettings()
    outbox: OutboxSettings = OutboxSettings()
    worker: WorkerSettings = WorkerSettings()
    email: EmailSettings = EmailSettings()
    push: PushSettings = PushSettings()
    storm: StormSettings = StormSettings()
    keep: KeepSettings = KeepSettings()
    service: ServiceSettings = ServiceSettings()
    types: Mapping[str, TypePolicy] = field(default_factory=lambda: dict(BUILT_IN))

    @property
    def channels(self) -> frozenset[Channel]:
        """Those of which it is said how their messages leave."""
        on: dict[Channel, bool] = {
            "in_app": True,
            "email": self.email.transport != "off",
            "push": self.push.keys is not None,
        }
        return frozenset(channel for channel, configured in on.items() if configured)

    @property
    def worst_case(self) -> int:
        """The longest that a claim may take: all of it is in flight at a time, and each call of a provider ends."""
        return max(self.email.timeout, self.push.timeout) + STORE_SHARE

    def policies(self) -> Policies:
        """The policies of all types; programs register theirs besides."""
        return Policies(self.types)
