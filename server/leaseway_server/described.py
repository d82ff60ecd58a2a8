"""What a configuration comes to, for `leaseway check`: in lines for people, and as JSON for programs.

Nothing is decided here, and nothing printed.
"""

from dataclasses import fields

from leaseway_server.config import Config, QueueConfig, ServerConfig
from leaseway_server.config.values import spell
from leaseway_server.core.access import RIGHTS, Grant


def in_lines(config: Config) -> str:
    """All of it, as `leaseway check` prints it."""
    head = f"{config.file} is fine." if config.file else "There is no leaseway.toml here. This is the default:"
    return "\n".join([head, _server(config.server), *map(_queue, config.queues.values())])


def as_json(config: Config) -> dict[str, object]:
    """All of it, with durations in ms. `file` is null where there is none; a schema is named by its kind."""
    server = config.server
    return {
        "file": str(config.file) if config.file else None,
        "faults": [],
        "listen": f"{server.host}:{server.port}",
        "store": str(server.store),
        "allowedOrigins": sorted(server.allowed_origins),
        "admins": sorted(server.admins),
        "queues": list(map(_queue_as_json, config.queues.values())),
    }


def _queue_as_json(config: QueueConfig) -> dict[str, object]:
    queue, policy = config.queue, config.queue.policy
    grants = {right: config.grants.to(right) for right in RIGHTS}
    return {
        "queue": queue.name,
        "access": {right: sorted(to) if isinstance(to, frozenset) else to for right, to in grants.items()},
        "visibility": "own" if queue.own_only else "all",
        "schemas": _kinds(config),
        "maxPending": queue.max_pending,
        "leaseMs": policy.lease,
        "progressByMs": policy.progress_by or None,
        "maxAttempts": policy.max_attempts,
        "maxLosses": policy.max_losses,
        "delaysMs": list(policy.backoff.delays),
        "keepMs": {of.name: getattr(queue.keep, of.name) for of in fields(queue.keep)},
    }


def _server(server: ServerConfig) -> str:
    pages = ", ".join(["its own", *sorted(server.allowed_origins)])
    return (
        f"Listens on {server.host} port {server.port}, data in {server.store}.\n"
        f"Pages that may use it: {pages}. Administrators: {', '.join(sorted(server.admins)) or 'none'}."
    )


def _queue(config: QueueConfig) -> str:
    queue, policy = config.queue, config.queue.policy
    progress = f", progress within {spell(policy.progress_by)}" if policy.progress_by else ""
    delays = ", ".join(map(spell, policy.backoff.delays))
    own = "; a user sees what it posted" if queue.own_only else ""
    return (
        f"Queue {queue.name}\n"
        f"  rights   {'; '.join(f'{right}: {_whom(config.grants.to(right))}' for right in RIGHTS)}{own}\n"
        f"  schemas  {', '.join(_kinds(config)) or 'none: anything is taken'}\n"
        f"  pending  at most {queue.max_pending:,}\n"
        f"  lease    {spell(policy.lease)}{progress}\n"
        f"  retry    {policy.max_attempts} attempts, after {delays}; {policy.max_losses} losses\n"
        f"  keep     {', '.join(f'{of.name} {spell(getattr(queue.keep, of.name))}' for of in fields(queue.keep))}"
    )


def _kinds(config: QueueConfig) -> list[str]:
    return [kind for kind, document in config.queue.schemas.documents().items() if document is not None]


def _whom(grant: Grant) -> str:
    if isinstance(grant, frozenset):
        return ", ".join(sorted(grant)) or "nobody"
    return {"open": "anyone", "users": "any user"}[grant]
