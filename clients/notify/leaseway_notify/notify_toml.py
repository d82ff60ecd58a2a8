"""`notify.toml` → `Settings`: which keys there are, and what cannot be said together.

Every mistake is told with its file, its key and what was expected, all of them at once. Nothing is started here.
Secrets may come from the environment, which comes before the file.
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import time
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from leaseway_notify.checks import check_type, is_contact
from leaseway_notify.errors import Refused
from leaseway_notify.event import PRIORITIES
from leaseway_notify.policy import BUILT_IN, TypePolicy
from leaseway_notify.profile import CHANNELS, Channel, time_of_day
from leaseway_notify.recipient_token import LEAST_SECRET
from leaseway_notify.settings import (
    STORE_SHARE,
    EmailSettings,
    KeepSettings,
    OutboxSettings,
    PlanSettings,
    PushSettings,
    QueueSettings,
    ServiceSettings,
    Settings,
    StormSettings,
    WorkerSettings,
    http_url,
)
from leaseway_notify.toml import (
    SettingsRefused,
    Table,
    Wrong,
    duration,
    each_of,
    expected,
    one_of,
    read_toml,
    spell,
    text,
    whole,
    yes_or_no,
)

DEFAULT_FILE: Final = Path("notify.toml")
VARIABLES: Final = {
    "LEASEWAY_NOTIFY_STORE": ("", "store"),
    "LEASEWAY_NOTIFY_TOKEN": ("queue", "token"),
    "LEASEWAY_NOTIFY_SMTP_PASSWORD": ("email", "password"),
    "LEASEWAY_NOTIFY_PROVIDER_KEY": ("email", "provider_key"),
    "LEASEWAY_NOTIFY_SERVICE_TOKEN": ("service", "token"),
    "LEASEWAY_NOTIFY_SERVICE_SECRET": ("service", "secret"),
}
"""Variables of the environment, and the table and key that each comes before."""
_NO_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType({})


def load_settings(
    path: Path | None = None, environ: Mapping[str, str] = _NO_ENVIRONMENT, listen: str | None = None
) -> Settings:
    """Reads the file, else `./notify.toml`, else takes the defaults; `listen` comes before its `service.listen`.
    Raises `SettingsRefused`."""
    file = path or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    said = {} if file is None else read_toml(file)
    named, folder = ("the settings", Path()) if file is None else (str(file), file.parent)
    return settings_of(said, named, folder, environ, listen)


def settings_of(
    said: Mapping[str, Any],
    file: str = "the settings",
    folder: Path = Path(),
    environ: Mapping[str, str] = _NO_ENVIRONMENT,
    listen: str | None = None,
) -> Settings:
    """What tables say; files in them are relative to `folder`. Raises `SettingsRefused`."""
    faults: list[str] = []
    merged, elsewhere = _with_others(said, environ, listen)
    root = Table(file, merged, faults, elsewhere=elsewhere)
    settings = Settings(
        store=root.take("store", lambda value: _store(value, folder), f"sqlite:{folder / 'notify.db'}"),
        queue=_queue(root.table("queue")),
        plan=PlanSettings(**_durations(root.table("plan"), PlanSettings())),
        outbox=OutboxSettings(**_durations(root.table("outbox"), OutboxSettings())),
        worker=_worker(root.table("worker")),
        email=_email(root.table("email"), folder),
        push=_push(root.table("push"), folder),
        storm=StormSettings(**_durations(root.table("storm"), StormSettings())),
        keep=KeepSettings(**_durations(root.table("keep"), KeepSettings())),
        service=_service(root.table("service")),
        types=_types(root.table("types")),
    )
    root.close()
    _check_lease(root, settings)
    if faults:
        raise SettingsRefused(faults)
    return settings


def _with_others(
    said: Mapping[str, Any], environ: Mapping[str, str], listen: str | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """What the file says with what comes before it; and where that was said, by its key."""
    given = [(variable, *place, environ[variable]) for variable, place in VARIABLES.items() if environ.get(variable)]
    if listen is not None:
        given.append(("--listen", "service", "listen", listen))
    merged, elsewhere = dict(said), {}
    for where, table, key, value in given:
        within = merged.get(table, {})
        if not table:
            merged[key] = value
        elif isinstance(within, Mapping):
            merged[table] = {**within, key: value}
        elsewhere[f"{table}.{key}" if table else key] = where
    return merged, elsewhere


def _check_lease(root: Table, settings: Settings) -> None:
    """All leases of a claim begin together, so that a claim has to be done within one."""
    worst, lease = settings.worst_case, settings.queue.lease
    if worst > lease:
        timeouts = f"email.timeout {spell(settings.email.timeout)}, push.timeout {spell(settings.push.timeout)}"
        root.table("queue").refuse(
            "lease",
            f"expected at least {spell(worst)}, found {spell(lease)}: a delivery may take the longest timeout of a "
            f"provider ({timeouts}) and {spell(STORE_SHARE)} for the store; lower the timeouts, or raise the queue's "
            "lease and say so here",
        )


# ── The tables ──

_MOST: Final = 10_000


def _durations(table: Table, default: Any) -> dict[str, int]:
    """A table of nothing but durations and numbers."""
    numbers = {"portion", "most"}
    taken = {
        of.name: table.take(of.name, whole(1, _MOST) if of.name in numbers else duration, getattr(default, of.name))
        for of in fields(default)
    }
    table.close()
    return taken


def _queue(table: Table) -> QueueSettings:
    default = QueueSettings()
    settings = QueueSettings(
        url=table.take("url", _url("ws", "wss"), default.url),
        token=table.take("token", _secret, None),
        lease=table.take("lease", duration, default.lease),
    )
    table.close()
    return settings


def _worker(table: Table) -> WorkerSettings:
    default = WorkerSettings()
    settings = WorkerSettings(
        in_flight=table.take("in_flight", whole(1, 1_000), default.in_flight),
        longest_wait=table.take("longest_wait", duration, default.longest_wait),
        read_types=table.take("read_types", each_of(_type), default.read_types),
    )
    table.close()
    return settings


def _email(table: Table, folder: Path) -> EmailSettings:
    default = EmailSettings()
    templates = table.take("templates", text, "")
    settings = EmailSettings(
        transport=table.take("transport", one_of("off", "smtp", "provider"), default.transport),
        sender=table.take("sender", text, default.sender),
        name=table.take("name", text, default.name),
        product=table.take("product", text, default.product),
        host=table.take("host", text, default.host),
        port=table.take("port", whole(1, 65_535), default.port),
        security=table.take("security", one_of("starttls", "tls", "none"), default.security),
        username=table.take("username", text, None),
        password=table.take("password", _secret, None),
        provider=table.take("provider", _url("http", "https"), default.provider),
        provider_key=table.take("provider_key", _secret, None),
        timeout=table.take("timeout", duration, default.timeout),
        tracking=table.take("tracking", yes_or_no, default.tracking),
        templates=folder / templates if templates else None,
    )
    table.close()
    needed = {"off": (), "smtp": ("sender",), "provider": ("sender", "provider", "provider_key")}
    for name in needed[settings.transport]:
        if name not in table:
            table.refuse(name, f'is needed where email.transport is "{settings.transport}"')
    return settings


def _push(table: Table, folder: Path) -> PushSettings:
    default = PushSettings()
    keys = table.take("keys", text, "")
    settings = PushSettings(
        keys=folder / keys if keys else None,
        subject=table.take("subject", _subject, default.subject),
        timeout=table.take("timeout", duration, default.timeout),
        keep=table.take("keep", duration, default.keep),
        allow_private=table.take("allow_private", yes_or_no, default.allow_private),
    )
    table.close()
    if keys and "subject" not in table:
        table.refuse("subject", "is needed where there are keys: push services write to whom it names")
    return settings


def _service(table: Table) -> ServiceSettings:
    default = ServiceSettings()
    host, port = table.take("listen", _address, (default.host, default.port))
    own = http_url(host, port)
    settings = ServiceSettings(
        host=host,
        port=port,
        public_url=table.take("public_url", _url("http", "https"), own).rstrip("/"),
        internal_url=table.take("internal_url", _url("http", "https"), own).rstrip("/"),
        token=table.take("token", _long_secret, None),
        secret=table.take("secret", _long_secret, None),
        token_url=table.take("token_url", _url("http", "https"), default.token_url),
        origins=table.take("origins", each_of(_origin), default.origins),
    )
    table.close()
    if settings.token is not None and settings.token == settings.secret:
        table.refuse("secret", "expected another text than that of service.token: who has one must not have both")
    return settings


def _types(root: Table) -> dict[str, TypePolicy]:
    types = dict(BUILT_IN)
    for name in root:
        try:
            check_type("type", name)
        except Refused as refused:
            root.refuse(name, refused.message)
        table = root.table(name)
        types[name] = _type_policy(table, types.get(name, TypePolicy()))
        table.close()
    return types


def _type_policy(table: Table, default: TypePolicy) -> TypePolicy:
    """What is not said is as it was: a built-in type's own, or a plain one's."""
    return TypePolicy(
        channels=table.take("channels", each_of(one_of(*CHANNELS)), default.channels),
        priority=table.take("priority", one_of(*PRIORITIES), default.priority),
        urgent=table.take("urgent", yes_or_no, default.urgent),
        batch=_by_channel(table, "batch", duration, default.batch),
        digest=table.take("digest", _time_or_off, default.digest),
        at_once=table.take("at_once", each_of(one_of(*CHANNELS)), default.at_once),
        collaboration_delay=table.take("collaboration_delay", duration, default.collaboration_delay),
        hourly=_by_channel(table, "hourly", whole(1, _MOST), default.hourly),
    )


def _by_channel(table: Table, name: str, read: Any, default: Mapping[Channel, int]) -> Mapping[Channel, int]:
    if name not in table:
        table.known.append(name)
        return default
    within = table.table(name)
    taken: dict[Channel, int] = {channel: within.take(channel, read, 0) for channel in CHANNELS if channel in within}
    within.known.extend(CHANNELS)
    within.close()
    return taken


# ── Kinds of values ──


def _store(value: object, folder: Path) -> str:
    """What was found is not repeated: it may hold a password."""
    if isinstance(value, str) and re.match("postgres(ql)?://", value):
        return value
    if isinstance(value, str) and (found := re.fullmatch(r"sqlite:([^\0]+)", value)):
        return f"sqlite:{folder / found[1]}"
    raise Wrong('expected "sqlite:FILE" or "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"')


def _secret(value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise Wrong("expected a text on one line")
    return value


def _long_secret(value: object) -> str:
    if not isinstance(value, str) or len(value) < LEAST_SECRET or not value.isascii() or not value.isprintable():
        raise Wrong(f"expected at least {LEAST_SECRET} characters of ASCII, such as `openssl rand -hex 32` prints")
    return value


def _origin(value: object) -> str:
    found = re.fullmatch(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?", value) if isinstance(value, str) else None
    if found is None:
        raise expected('a site such as "https://app.example.com", without a path', value)
    return found[0]


def _url(*schemes: str) -> Any:
    def read(value: object) -> str:
        try:
            parts = urlsplit(value) if isinstance(value, str) else None
            good = parts is not None and parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good or not isinstance(value, str):
            raise expected(f"a URL that begins with {' or '.join(f'{scheme}://' for scheme in schemes)}", value)
        return value

    return read


def _subject(value: object) -> str:
    if not isinstance(value, str) or not is_contact(value):
        raise expected('"mailto:" and an address, or an https URL', value)
    return value


def _address(value: object) -> tuple[str, int]:
    found = re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})", value) if isinstance(value, str) else None
    if found is None or int(found[2]) > 65_535:
        raise expected('a host and a port such as "127.0.0.1:8790"', value)
    return found[1].strip("[]"), int(found[2])


def _type(value: object) -> str:
    try:
        check_type("", value)
    except Refused as refused:
        raise Wrong(refused.message) from None
    return str(value)


def _time_or_off(value: object) -> time | None:
    if value == "off":
        return None
    try:
        return time_of_day("", value)
    except Refused:
        raise expected('"off" or a time of the day such as "08:00"', value) from None
