"""`leaseway.toml` → frozen dataclasses: which keys there are, what they mean, and what cannot be said together.

Every mistake is told with its file, its key and what was expected, all of them at once. Nothing is started here, and
nothing is read but the file and the folders of schemas that it names.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from leaseway_server.config_table import (
    ConfigRefused,
    Fault,
    Table,
    Wrong,
    duration,
    durations,
    expected,
    share,
    span,
    span_or_off,
    spell,
    text,
    whole,
)
from leaseway_server.core.access import RIGHTS, Grant, Grants
from leaseway_server.core.backoff import Backoff
from leaseway_server.core.jsontext import Json, JsonRefused, parse
from leaseway_server.core.lifecycle import Policy
from leaseway_server.core.members import is_name
from leaseway_server.core.queue import Limits, Queue, Schemas
from leaseway_server.core.schema import Schema, SchemaRefused

T = TypeVar("T")

DEFAULT_FILE: Final = Path("leaseway.toml")
WITHOUT_A_FILE: Final = {"queues": {"demo": {"access": dict.fromkeys(RIGHTS, "open")}}}
"""One open queue: enough to try everything."""
QUEUE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
QUEUE_NAME_RULE: Final = "a queue's name has at most 63 of a-z, 0-9, - and _, and begins with a letter or digit"
KINDS: Final = ("item", "progress", "result")
MOST_TRIES: Final = 1_000
MESSAGE_BYTES: Final = (256 * 1024, 256 * 1024 * 1024)
NO_ENVIRONMENT: Final[Mapping[str, str]] = MappingProxyType({})

LATER_SERVER_KEYS: Final = frozenset({"allowed_origins", "limits", "listen_url", "trusted_proxies"})
LATER_QUEUE_KEYS: Final = frozenset({"dedupe_window", "keep", "match", "max_bulk_items", "max_pending", "visibility"})


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """What `[server]` says. Durations in ms; `port` 0 lets the system choose."""

    host: str = "127.0.0.1"
    port: int = 8787
    data: Path = Path("leaseway-data")
    resume_grace: int = 30_000
    ping_interval: int = 15_000
    ping_timeout: int = 10_000
    max_message_bytes: int = 1_048_576
    admins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """What `[queues.<name>]` says: the queue, and who may do what there."""

    queue: Queue
    grants: Grants


@dataclass(frozen=True, slots=True)
class Config:
    """A whole configuration. `file` is where it was read; None is the default, without a file."""

    file: Path | None
    server: ServerConfig
    queues: dict[str, QueueConfig]


def load_config(
    path: Path | None,
    *,
    environ: Mapping[str, str] = NO_ENVIRONMENT,
    listen: str | None = None,
    store: str | None = None,
    open_to_the_network: bool = False,
) -> Config:
    """Reads the file `path`, else LEASEWAY_CONFIG, else `./leaseway.toml`, else takes the default.

    `listen` and `store` come before LEASEWAY_LISTEN and LEASEWAY_STORE, and those before the file; folders in it are
    relative to its own. Unless `open_to_the_network`, rights that are open to anyone keep the server on loopback.
    Raises `ConfigRefused`.
    """
    file = _find(path, environ)
    faults: list[Fault] = []
    options = {"--listen": listen, "--store": store}
    reading = _Reading(
        faults,
        Table(faults, str(file or "the default configuration"), _read(file) if file else WITHOUT_A_FILE),
        Table(faults, "environment", {name: value for name, value in environ.items() if value}),
        Table(faults, "command line", {name: value for name, value in options.items() if value is not None}),
        file.parent if file else Path(),
    )
    config = Config(file, *reading.read(open_to_the_network=open_to_the_network))
    if faults:
        raise ConfigRefused(faults)
    return config


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _find(path: Path | None, environ: Mapping[str, str]) -> Path | None:
    if path is None and environ.get("LEASEWAY_CONFIG"):
        path = Path(environ["LEASEWAY_CONFIG"])
    if path is None and DEFAULT_FILE.exists():
        path = DEFAULT_FILE
    return path


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigRefused([Fault(str(file), "", f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        raise ConfigRefused([Fault(str(file), "", f"is not UTF-8, at byte {error.start}")]) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigRefused([Fault(str(file), "", f"is not TOML: {error}")]) from None


@dataclass(frozen=True, slots=True)
class _Reading:
    """One run over a configuration; `faults` gathers what is wrong. `environ` and `options` come before the file."""

    faults: list[Fault]
    root: Table
    environ: Table
    options: Table
    folder: Path

    def read(self, *, open_to_the_network: bool) -> tuple[ServerConfig, dict[str, QueueConfig]]:
        table = self.root.table("server")
        server = self._server(table)
        table.close(LATER_SERVER_KEYS)
        queues = self._queues(server)
        self.root.close()
        if not open_to_the_network and not is_loopback(server.host):
            self._check_exposure(table, queues)
        return server, queues

    def _server(self, table: Table) -> ServerConfig:
        default = ServerConfig()
        host, port = self._overridden("listen", _address, table.take("listen", _address, (default.host, default.port)))
        data = self.folder / table.take("store", _data_folder, default.data)
        return ServerConfig(
            host=host,
            port=port,
            data=self._overridden("store", _data_folder, data),
            resume_grace=table.take("resume_grace", duration, default.resume_grace),
            ping_interval=table.take("ping_interval", span, default.ping_interval),
            ping_timeout=table.take("ping_timeout", span, default.ping_timeout),
            max_message_bytes=table.take("max_message_bytes", whole(*MESSAGE_BYTES), default.max_message_bytes),
            admins=table.take("admins", _users, default.admins),
        )

    def _overridden(self, name: str, read: Callable[[Any], T], value: T) -> T:
        value = self.environ.take(f"LEASEWAY_{name.upper()}", read, value)
        return self.options.take(f"--{name}", read, value)

    def _queues(self, server: ServerConfig) -> dict[str, QueueConfig]:
        before = len(self.faults)
        tables = self.root.table("queues")
        if not list(tables) and len(self.faults) == before:
            self.root.refuse("queues", "expected at least one queue, such as [queues.resize]")
        return {name: self._queue(tables, name, server) for name in tables}

    def _queue(self, tables: Table, name: str, server: ServerConfig) -> QueueConfig:
        if not QUEUE_NAME.fullmatch(name):
            tables.refuse(name, QUEUE_NAME_RULE)
        table = tables.table(name)
        policy = self._policy(table, server)
        folder = table.take("schemas", text, "")
        schemas = self._schemas(table, self.folder / folder) if folder else Schemas()
        grants = _grants(table.table("access"))
        table.close(LATER_QUEUE_KEYS)
        return QueueConfig(Queue(name, policy, schemas, Limits(message_bytes=server.max_message_bytes)), grants)

    def _policy(self, table: Table, server: ServerConfig) -> Policy:
        default = Policy()
        retry = table.table("retry")
        policy = Policy(
            lease=table.take("lease", span, default.lease),
            progress_by=table.take("progress_by", span_or_off, default.progress_by),
            max_attempts=retry.take("max_attempts", whole(1, MOST_TRIES), default.max_attempts),
            max_losses=retry.take("max_losses", whole(1, MOST_TRIES), default.max_losses),
            backoff=self._backoff(retry, default.backoff),
        )
        retry.close()
        missed = server.ping_interval + server.ping_timeout
        if policy.lease < missed:
            found = spell(policy.lease)
            table.refuse("lease", f"expected at least {spell(missed)} (ping_interval + ping_timeout), found {found}")
        return policy

    def _backoff(self, retry: Table, default: Backoff) -> Backoff:
        before = len(self.faults)
        delays = retry.take("delays", durations, default.delays)
        cap = retry.take("cap", duration, default.cap)
        if max(delays) > cap and len(self.faults) == before:
            retry.refuse("delays", f"expected delays of at most {spell(cap)} (cap), found {spell(max(delays))}")
        return Backoff(delays, cap, retry.take("jitter", share, default.jitter))

    def _schemas(self, table: Table, folder: Path) -> Schemas:
        if not folder.is_dir():
            table.refuse("schemas", f"expected a folder, and there is none at {folder}")
            return Schemas()
        files = sorted(folder.glob("*.json"))
        if not any(file.stem in KINDS for file in files):
            table.refuse("schemas", f"expected item.json, progress.json or result.json, and none is in {folder}")
        documents = self._documents(files)
        return Schemas(**{kind: self._schema(folder / f"{kind}.json", documents) for kind in KINDS})

    def _documents(self, files: Iterable[Path]) -> dict[str, Json]:
        """What the files hold, by name; those that cannot be read are noted and left out."""
        documents = {}
        for file in files:
            try:
                documents[file.name] = parse(file.read_bytes())
            except OSError as error:
                self.faults.append(Fault(str(file), "", f"cannot be read: {error.strerror}"))
            except JsonRefused as refused:
                self.faults.append(Fault(str(file), "", str(refused)))
        return documents

    def _schema(self, file: Path, documents: Mapping[str, Json]) -> Schema | None:
        """The compiled schema; None where there is none, or it is refused and noted. It may refer to its neighbours."""
        if file.name not in documents:
            return None
        neighbours = {name: document for name, document in documents.items() if name != file.name}
        try:
            return Schema.compile(documents[file.name], neighbours)
        except SchemaRefused as refused:
            other, in_other, pointer = refused.pointer.partition("#")
            fault = (
                Fault(str(file.with_name(other)), pointer, str(refused))
                if in_other and other in neighbours
                else Fault(str(file), refused.pointer, str(refused))
            )
            if fault not in self.faults:  # Its neighbours may have told it too.
                self.faults.append(fault)
            return None

    def _check_exposure(self, table: Table, queues: Mapping[str, QueueConfig]) -> None:
        """Notes, where the address was said, which rights everybody on the network would have."""
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
    grants = Grants(**{right: table.take(right, _grant, default.to(right)) for right in RIGHTS})
    table.close()
    return grants


# ── Values ──


def _address(value: object) -> tuple[str, int]:
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65_535:
        raise expected('a host and a port such as "127.0.0.1:8787" or "[::1]:8787"', value)
    return host, int(port)


def _data_folder(value: object) -> Path:
    kind, _, folder = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind in ("postgresql", "postgres"):
        raise Wrong('PostgreSQL is not in this version of Leaseway; expected "sqlite:" and a folder')
    if kind != "sqlite" or not folder:
        raise Wrong(
            'expected "sqlite:" and a folder, such as "sqlite:leaseway-data"'
        )  # An address may hold a password.
    return Path(folder)


def _grant(value: object) -> Grant:
    if value == "open" or value == "users":
        return value
    if not isinstance(value, list):
        raise expected('"open", "users" or a list of users such as ["alice"]', value)
    return _users(value)


def _users(value: object) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(user, str) and is_name(user) for user in value):
        raise expected('a list of users such as ["alice"]', value)
    return frozenset(value)
