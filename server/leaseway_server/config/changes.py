"""What a new configuration changes, against the one that runs: what can change at once, and what needs a restart.

Pure: what is to be done about it is done by who runs the server.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from leaseway_server.config.model import Config, QueueConfig, ServerConfig, is_loopback
from leaseway_server.core.access import RIGHTS
from leaseway_server.store.place import PostgresUrl

_FIXED: Final = ("resume_grace", "ping_interval", "ping_timeout", "max_message_bytes")
"""What holds as long as the server runs, beside `listen` and `store`."""
_FREE: Final = ("admins", "allowed_origins")
_FREE_LIMITS: Final = ("subscriptions", "ids_per_message", "trusted_proxies")
FIXED_OF_A_QUEUE: Final = frozenset({"match"})
"""What of a queue holds as long as the server runs."""
RESTART_KEYS: Final = frozenset(f"server.{key}" for key in ("listen", "store", "listen_url", *_FIXED))


@dataclass(frozen=True, slots=True)
class Changes:
    """`config` is what is to run now: new where it can change at once, as before where that needs a restart.

    `now` and `restart` name the keys of either kind that differ, as the file writes them; a queue that is new or gone
    is one key.
    """

    config: Config
    now: tuple[str, ...]
    restart: tuple[str, ...]


def differences(old: Config, new: Config) -> Changes:
    """What `new` changes where `old` runs.

    A queue that would be open to anyone, on an address that its new file does not mean to listen on any more and that
    others reach, stays as it was: that needs a restart too.
    """
    held = _exposed(old, new)
    changed = _changed(_server_keys(old.server), _server_keys(new.server))
    now = [key for key in changed if key not in RESTART_KEYS]
    restart = [key for key in changed if key in RESTART_KEYS]
    for name in old.queues | new.queues:
        if name not in old.queues or name not in new.queues:
            restart.append(f"queues.{name}")
            continue
        for key in _changed(_queue_keys(old.queues[name]), _queue_keys(new.queues[name])):
            fixed = key.removeprefix(f"queues.{name}.") in FIXED_OF_A_QUEUE
            (restart if fixed or name in held else now).append(key)
    return Changes(_merged(old, new, held), tuple(now), tuple(restart))


def _merged(old: Config, new: Config, held: frozenset[str]) -> Config:
    fixed = {name: getattr(old.server, name) for name in ("host", "port", "store", *_FIXED)}
    server = replace(new.server, **fixed)
    queues = {
        name: running if name in held or name not in new.queues else _bounded(new.queues[name], running, server)
        for name, running in old.queues.items()
    }
    return replace(new, server=server, queues=queues)


def _bounded(config: QueueConfig, running: QueueConfig, server: ServerConfig) -> QueueConfig:
    limits = replace(server.message_limits, bulk_items=config.queue.limits.bulk_items)
    return replace(config, queue=replace(config.queue, limits=limits, match=running.queue.match))


def _exposed(old: Config, new: Config) -> frozenset[str]:
    """The queues that the new configuration opens to anyone, while the server still listens to the network."""
    if is_loopback(old.server.host) or new.outside.open_to_the_network:
        return frozenset()
    return frozenset(name for name, config in new.queues.items() if config.grants.open_rights())


def _changed(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    return [key for key, value in new.items() if value != old[key]]


def _server_keys(server: ServerConfig) -> dict[str, object]:
    """The value of each key of `[server]`."""
    limits = {of.name: getattr(server.limits, of.name) for of in fields(server.limits)}
    limits |= {name: getattr(server, name) for name in _FREE_LIMITS}
    listen_url = server.store.listen_url if isinstance(server.store, PostgresUrl) else ""
    return {
        "server.listen": (server.host, server.port),
        "server.store": server.store,
        "server.listen_url": listen_url,
        **{f"server.{name}": getattr(server, name) for name in (*_FIXED, *_FREE)},
        **{f"server.limits.{name}": value for name, value in limits.items()},
    }


def _queue_keys(config: QueueConfig) -> dict[str, object]:
    """The value of each key of a queue."""
    queue, policy, backoff = config.queue, config.queue.policy, config.queue.policy.backoff
    keys: dict[str, object] = {
        "schemas": config.schema_files,
        "lease": policy.lease,
        "progress_by": policy.progress_by,
        "max_pending": queue.max_pending,
        "visibility": queue.own_only,
        "dedupe_window": policy.dedupe_window,
        "max_bulk_items": queue.limits.bulk_items,
        "match": queue.match,
        **{f"access.{right}": config.grants.to(right) for right in RIGHTS},
        "retry.max_attempts": policy.max_attempts,
        "retry.max_losses": policy.max_losses,
        "retry.delays": backoff.delays,
        "retry.cap": backoff.cap,
        "retry.jitter": backoff.jitter,
        **{f"keep.{of.name}": getattr(queue.keep, of.name) for of in fields(queue.keep)},
    }
    return {f"queues.{queue.name}.{key}": value for key, value in keys.items()}
