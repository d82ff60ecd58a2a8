"""`leaseway.toml` → `Config`: which keys there are, and what cannot be said together.

Every mistake is told with its file, its key and what was expected, all of them at once. Nothing is started here, and
nothing is read but the file and the folders of schemas that it names.
"""

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from leaseway_server.config.model import (
    Config,
    Outside,
    QueueConfig,
    ServerConfig,
    is_loopback,
)
from leaseway_server.config.schemas import SchemaFolder
from leaseway_server.config.table import ConfigRefused, Fault, Findings, Table, unknown
from leaseway_server.config.values import (
    address,
    database_url,
    duration,
    durations,
    folder,
    grant,
    names,
    networks,
    origins,
    paths,
    share,
    shows_own,
    span,
    span_or_off,
    spell,
    store,
    users,
    whole,
)
from leaseway_server.core.access import RIGHTS, Grants
from leaseway_server.core.backoff import Backoff
from leaseway_server.core.limits import WINDOW_MS, ServerLimits
from leaseway_server.core.policy import Policy
from leaseway_server.core.queue import QUEUE_NAME, Queue, Schemas
from leaseway_server.core.retention import Keep
from leaseway_server.log import LogFormat
from leaseway_server.store.place import Place, PostgresUrl, SqliteFolder

T = TypeVar("T")

DEFAULT_FILE: Final = Path("leaseway.toml")
WITHOUT_A_FILE: Final = {"queues": {"demo": {"access": dict.fromkeys(RIGHTS, "open")}}}
"""One open queue: enough to try everything."""
VARIABLES: Final = ("LEASEWAY_CONFIG", "LEASEWAY_LISTEN", "LEASEWAY_STORE")
STORE_KEY: Final = "server.store"
QUEUE_NAME_RULE: Final = "a queue's name has at most 63 of a-z, 0-9, - and _, and begins with a letter or digit"
MOST_TRIES: Final = 1_000
MOST_BULK_ITEMS: Final = 10_000
MESSAGE_BYTES: Final = (256 * 1024, 256 * 1024 * 1024)
MOST: Final = 1_000_000_000
"""No count is larger."""

_NO_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType({})
_count: Final = whole(1, MOST)
_LIMITS: Final[Mapping[str, Callable[[object], int]]] = {
    "connections_per_address": _count,
    "connections_per_token": _count,
    "messages_per_second": whole(100, MOST),  # A full batch of 1,000 fits into ten seconds.
    "bytes_per_second": whole(32 * 1024, MOST),
    "bad_messages": _count,
    "failed_tokens_per_minute": _count,
    "waiting_claims_per_token": _count,
    "request_timeout": span,
}


def load_config(
    path: Path | None,
    *,
    environ: Mapping[str, str] = _NO_ENVIRONMENT,
    listen: str | None = None,
    store: str | None = None,
    queues: str | None = None,
    allow_origins: Sequence[str] = (),
    log: LogFormat = "json",
    open_to_the_network: bool = False,
) -> Config:
    """Reads the file `path`, else LEASEWAY_CONFIG, else `./leaseway.toml`, else takes the default.

    `listen` and `store` come before LEASEWAY_LISTEN and LEASEWAY_STORE, and those before the file; folders in it are
    relative to its own. `queues` ("a,b") names the part of it that is served, `allow_origins` are added to those of the
    file. Unless `open_to_the_network`, rights that are open to anyone keep the server on loopback.
    Raises `ConfigRefused`.
    """
    outside = Outside(
        environ={name: environ[name] for name in VARIABLES if environ.get(name)},
        listen=listen,
        store=store,
        queues=queues,
        allow_origins=tuple(allow_origins),
        log=log,
        open_to_the_network=open_to_the_network,
    )
    return _load(_find(path, outside.environ), outside)


def config_of(tables: Mapping[str, Any], *, listen: str, store: str) -> Config:
    """As `load_config`, of tables that stand in no file; folders in them are relative to the working directory."""
    return _load(None, Outside(listen=listen, store=store), tables)


def reload_config(config: Config) -> Config:
    """The same configuration, read anew: the same file, which must still be there, and the same words outside of it.

    Raises `ConfigRefused`.
    """
    return _load(config.file or _find(None, config.outside.environ), config.outside)


def _load(file: Path | None, outside: Outside, tables: Mapping[str, Any] = WITHOUT_A_FILE) -> Config:
    """What the file says, or the tables where there is none."""
    found = Findings()
    options = {
        "--listen": outside.listen,
        "--store": outside.store,
        "--queues": outside.queues,
        "--allow-origin": list(outside.allow_origins) or None,
    }
    reading = _Reading(
        found,
        Table(found, str(file or "the configuration"), _read(file) if file else tables),
        Table(found, "environment", outside.environ),
        Table(found, "command line", {name: value for name, value in options.items() if value is not None}),
        file.parent if file else Path(),
        outside,
    )
    server, queues = reading.read()
    if found.faults:
        raise ConfigRefused(found.faults)
    return Config(file, server, queues, outside)


def _find(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    if path is None and "LEASEWAY_CONFIG" in environ:
        path = Path(environ["LEASEWAY_CONFIG"])
    if path is None and os.path.lexists(DEFAULT_FILE):  # A link that leads nowhere is a mistake, not the default.
        path = DEFAULT_FILE
    return path


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        fault = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        fault = f"is not UTF-8 (at line {line})"
    except tomllib.TOMLDecodeError as error:
        fault = f"is not TOML: {error}"
    except RecursionError:
        fault = "is nested too deeply"
    except ValueError:  # Python's own.
        fault = "has an integer of thousands of digits"
    raise ConfigRefused([Fault(str(file), "", fault)])


@dataclass(frozen=True, slots=True)
class _Reading:
    """One run over a configuration; `found` gathers what is wrong. `environ` and `options` come before the file."""

    found: Findings
    root: Table
    environ: Table
    options: Table
    folder: Path
    outside: Outside

    def read(self) -> tuple[ServerConfig, dict[str, QueueConfig]]:
        table = self.root.table("server")
        server = self._server(table)
        table.close()
        queues = self._served(self._queues(server))
        self.root.close()
        if not self.outside.open_to_the_network and not is_loopback(server.host):
            self._check_exposure(table, queues)
        return server, queues

    # ── [server] ──

    def _server(self, table: Table) -> ServerConfig:
        default = ServerConfig()
        host, port = self._overridden("listen", address, table.take("listen", address, (default.host, default.port)))
        message_bytes = table.take("max_message_bytes", whole(*MESSAGE_BYTES), default.max_message_bytes)
        limits = table.table("limits")
        server = ServerConfig(
            host=host,
            port=port,
            store=self._store(table, default.store),
            resume_grace=table.take("resume_grace", duration, default.resume_grace),
            ping_interval=table.take("ping_interval", span, default.ping_interval),
            ping_timeout=table.take("ping_timeout", span, default.ping_timeout),
            max_message_bytes=message_bytes,
            admins=table.take("admins", users, default.admins),
            allowed_origins=self._origins(table),
            limits=self._limits(limits, message_bytes),
            subscriptions=limits.take("subscriptions", _count, default.subscriptions),
            ids_per_message=limits.take("ids_per_message", _count, default.ids_per_message),
            trusted_proxies=limits.take("trusted_proxies", networks, default.trusted_proxies),
            log=self.outside.log,
        )
        limits.close()
        return server

    def _store(self, table: Table, default: Place) -> Place:
        """Where the data is. A folder of the file is relative to its own; `listen_url` is for the file's own store."""
        before = len(self.found.faults)
        place = table.take("store", store, default)
        listen_url = table.take("listen_url", database_url, "")
        if isinstance(place, SqliteFolder):
            if listen_url and len(self.found.faults) == before:
                table.refuse("listen_url", "is for a store in PostgreSQL, and the store here is in SQLite; take it out")
            place = SqliteFolder(self.folder / place.folder)
        place = self._overridden("store", store, place)
        return replace(place, listen_url=listen_url) if isinstance(place, PostgresUrl) else place

    def _origins(self, table: Table) -> frozenset[str]:
        none: frozenset[str] = frozenset()
        return table.take("allowed_origins", origins, none) | self.options.take("--allow-origin", origins, none)

    def _limits(self, table: Table, message_bytes: int) -> ServerLimits:
        default = ServerLimits()
        limits = ServerLimits(
            **{name: table.take(name, read, getattr(default, name)) for name, read in _LIMITS.items()}
        )
        least = message_bytes * 1_000 // WINDOW_MS
        if limits.bytes_per_second < least:
            found = limits.bytes_per_second
            table.refuse("bytes_per_second", f"expected at least {least} (a tenth of max_message_bytes), found {found}")
        return limits

    def _overridden(self, name: str, read: Callable[[Any], T], value: T) -> T:
        value = self.environ.take(f"LEASEWAY_{name.upper()}", read, value)
        return self.options.take(f"--{name}", read, value)

    # ── [queues.<name>] ──

    def _queues(self, server: ServerConfig) -> dict[str, QueueConfig]:
        before = len(self.found.faults)
        tables = self.root.table("queues")
        if not list(tables) and len(self.found.faults) == before:
            self.root.refuse("queues", "expected at least one queue, such as [queues.resize]")
        return {name: self._queue(tables, name, server) for name in tables}

    def _served(self, queues: dict[str, QueueConfig]) -> dict[str, QueueConfig]:
        """Those that are to be served: all of them, or what `--queues` names."""
        chosen = self.options.take("--queues", names, tuple(queues))
        for name in chosen:
            if name not in queues:
                self.options.refuse("--queues", f"{name}: {unknown(name, queues, 'queue')}")
        return {name: config for name, config in queues.items() if name in chosen}

    def _queue(self, tables: Table, name: str, server: ServerConfig) -> QueueConfig:
        if not QUEUE_NAME.fullmatch(name):
            tables.refuse(name, QUEUE_NAME_RULE)
        table = tables.table(name)
        schemas, schema_files = self._schemas(table)
        bulk_items = table.take("max_bulk_items", whole(1, MOST_BULK_ITEMS), server.message_limits.bulk_items)
        queue = Queue(
            name,
            self._policy(table, server),
            schemas,
            replace(server.message_limits, bulk_items=bulk_items),
            max_pending=table.take("max_pending", whole(0, MOST), Queue(name).max_pending),
            own_only=table.take("visibility", shows_own, False),
            keep=_keep(table.table("keep")),
            match=table.take("match", paths, Queue(name).match),
        )
        grants = _grants(table.table("access"))
        if queue.own_only and "post" in grants.open_rights():
            open_to_post = 'anyone may post (access.post or access.admin is "open")'
            table.refuse("visibility", f'expected "all" while {open_to_post}, found "own"')
        table.close()
        return QueueConfig(queue, grants, schema_files)

    def _schemas(self, table: Table) -> tuple[Schemas, str]:
        place = table.take("schemas", folder, None)
        return SchemaFolder(self.folder / place, table, self.found.faults).read() if place else (Schemas(), "")

    def _policy(self, table: Table, server: ServerConfig) -> Policy:
        default = Policy()
        lease = table.take("lease", span, default.lease)
        progress_by = table.take("progress_by", span_or_off, default.progress_by)
        retry = table.table("retry")
        policy = Policy(
            lease=lease,
            progress_by=progress_by,
            max_attempts=retry.take("max_attempts", whole(1, MOST_TRIES), default.max_attempts),
            max_losses=retry.take("max_losses", whole(1, MOST_TRIES), default.max_losses),
            dedupe_window=table.take("dedupe_window", duration, default.dedupe_window),
            backoff=self._backoff(retry, default.backoff),
        )
        retry.close()
        missed = server.ping_interval + server.ping_timeout
        if policy.lease < missed:
            found = spell(policy.lease)
            table.refuse("lease", f"expected at least {spell(missed)} (ping_interval + ping_timeout), found {found}")
        return policy

    def _backoff(self, retry: Table, default: Backoff) -> Backoff:
        before = len(self.found.faults)
        delays = retry.take("delays", durations, default.delays)
        cap = retry.take("cap", duration, default.cap)
        if max(delays) > cap and len(self.found.faults) == before:
            retry.refuse("delays", f"expected delays of at most {spell(cap)} (cap), found {spell(max(delays))}")
        return Backoff(delays, cap, retry.take("jitter", share, default.jitter))

    def _check_exposure(self, table: Table, queues: Mapping[str, QueueConfig]) -> None:
        """Refuses, where the address was said, what would give rights to everybody on the network."""
        exposed = [
            f"{name}: {', '.join(right for right in RIGHTS if right in config.grants.open_rights())}"
            for name, config in queues.items()
            if config.grants.open_rights()
        ]
        said = ((self.options, "--listen"), (self.environ, "LEASEWAY_LISTEN"), (table, "listen"))
        place, key = next((place, key) for place, key in said if key in place)
        if exposed:
            place.refuse(
                key,
                f"expected a loopback address such as 127.0.0.1, since anyone may use {'; '.join(exposed)}; "
                "say who may in [queues.<name>.access], or start with --open-to-the-network",
            )


def _grants(table: Table) -> Grants:
    default = Grants()
    grants = Grants(**{right: table.take(right, grant, default.to(right)) for right in RIGHTS})
    table.close()
    return grants


def _keep(table: Table) -> Keep:
    default = Keep()
    keep = Keep(**{of.name: table.take(of.name, duration, getattr(default, of.name)) for of in fields(Keep)})
    table.close()
    return keep
