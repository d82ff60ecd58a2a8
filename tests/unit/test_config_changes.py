"""What a new configuration changes at once, what needs a restart, and what runs in between."""

import json
from itertools import count
from pathlib import Path

import pytest

from leaseway_server.config import Changes, Config, differences, load_config
from leaseway_server.core.access import Grants
from leaseway_server.core.queue import Limits

NETWORK = '[server]\nlisten = "192.0.2.7:1"\n'


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a folder of schemas."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "item.json").write_text("{}")
    return tmp_path


_number = count()


def load(toml: str, **said: object) -> Config:
    """A configuration of a file of its own."""
    file = Path(f"{next(_number)}.toml")
    file.write_text(toml)
    return load_config(file, **said)  # type: ignore[arg-type]  # each test names those that there are


def saying(key: str, value: object) -> str:
    """A file with the queue `a` that says so beside."""
    table, _, name = key.rpartition(".")
    return f"[{table}]\n{name} = {json.dumps(value)}\n" + ("" if table.startswith("queues") else "[queues.a]")


def of(old: str, new: str) -> Changes:
    return differences(load(old), load(new))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("server.admins", ["root"]),
        ("server.allowed_origins", ["https://app.example.com"]),
        ("server.limits.connections_per_address", 1),
        ("server.limits.connections_per_token", 1),
        ("server.limits.messages_per_second", 100),
        ("server.limits.bytes_per_second", 200_000),
        ("server.limits.bad_messages", 1),
        ("server.limits.failed_tokens_per_minute", 1),
        ("server.limits.subscriptions", 1),
        ("server.limits.ids_per_message", 1),
        ("server.limits.waiting_claims_per_token", 1),
        ("server.limits.request_timeout", "1s"),
        ("server.limits.trusted_proxies", []),
        ("queues.a.schemas", "schemas"),
        ("queues.a.lease", "1h"),
        ("queues.a.progress_by", "1h"),
        ("queues.a.max_pending", 1),
        ("queues.a.visibility", "own"),
        ("queues.a.dedupe_window", "0s"),
        ("queues.a.max_bulk_items", 7),
        ("queues.a.access.post", ["alice"]),
        ("queues.a.access.fetch", "open"),
        ("queues.a.access.work", []),
        ("queues.a.access.admin", ["root"]),
        ("queues.a.retry.max_attempts", 1),
        ("queues.a.retry.max_losses", 1),
        ("queues.a.retry.delays", ["1s"]),
        ("queues.a.retry.cap", "2h"),
        ("queues.a.retry.jitter", 0.5),
        ("queues.a.keep.fetched", "2h"),
        ("queues.a.keep.finished", "2h"),
        ("queues.a.keep.failed", "2h"),
        ("queues.a.keep.dead", "2h"),
        ("queues.a.keep.cancelled", "2h"),
        ("queues.a.keep.expired", "0s"),
    ],
)
def test_what_changes_while_it_runs(key: str, value: object) -> None:
    old, new = load("[queues.a]"), load(saying(key, value))
    changes = differences(old, new)
    assert (changes.now, changes.restart) == ((key,), ())
    assert changes.config == new


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("server.listen", "127.0.0.1:1"),
        ("server.store", "sqlite:elsewhere"),
        ("server.max_message_bytes", 2_000_000),
        ("server.resume_grace", "1s"),
        ("server.ping_interval", "1s"),
        ("server.ping_timeout", "1s"),
    ],
)
def test_what_needs_a_restart_stays_as_it_was(key: str, value: object) -> None:
    old, new = load("[queues.a]"), load(saying(key, value))
    changes = differences(old, new)
    assert (changes.now, changes.restart) == ((), (key,))
    assert changes.config.server == old.server
    assert changes.config.queues == old.queues


def test_queues_come_and_go_with_a_restart() -> None:
    changes = of('[queues.a]\n[queues.b]\nlease = "1h"', '[queues.b]\nlease = "2h"\n[queues.c]')
    assert (changes.now, changes.restart) == (("queues.b.lease",), ("queues.a", "queues.c"))
    assert {name: config.queue.policy.lease for name, config in changes.config.queues.items()} == {
        "a": 300_000,
        "b": 7_200_000,
    }


def test_nothing_is_told_where_nothing_differs() -> None:
    toml = '[server]\nadmins = ["a", "b"]\n[queues.a]\nschemas = "schemas"'
    config, same = load(toml), load(toml.replace('"a", "b"', '"b", "a"'))
    assert differences(config, same) == Changes(same, (), ())


def test_the_members_to_match_need_a_restart_and_stay_until_then() -> None:
    changes = of('[queues.a]\nmatch = ["format"]', '[queues.a]\nmatch = ["width"]\nmax_pending = 5')
    assert (changes.now, changes.restart) == (("queues.a.max_pending",), ("queues.a.match",))
    assert (changes.config.queues["a"].queue.match, changes.config.queues["a"].queue.max_pending) == (("format",), 5)


def test_a_schema_changes_with_the_files_beside_it(here: Path) -> None:
    (here / "schemas" / "sizes.json").write_text("{}")
    (here / "schemas" / "item.json").write_text('{"$ref": "sizes.json"}')
    toml = '[queues.a]\nschemas = "schemas"'
    old = load(toml)
    (here / "schemas" / "sizes.json").write_text("false")
    changes = differences(old, load(toml))
    assert changes.now == ("queues.a.schemas",)
    schema = changes.config.queues["a"].queue.schemas.item
    assert schema is not None
    assert schema.check(1)


def test_limits_change_beside_the_size_that_does_not() -> None:
    changes = of("[queues.a]", "[server]\nmax_message_bytes = 2_000_000\nlimits.subscriptions = 5\n[queues.a]")
    assert (changes.now, changes.restart) == (("server.limits.subscriptions",), ("server.max_message_bytes",))
    assert changes.config.queues["a"].queue.limits == Limits(subscriptions=5)
    assert changes.config.server.max_message_bytes == Limits().message_bytes


def test_what_waits_for_a_restart_is_told_each_time() -> None:
    old, new = load("[queues.a]"), load('[server]\nlisten = "127.0.0.1:1"\n[queues.a]')
    running = differences(old, new).config
    assert differences(running, new).restart == ("server.listen",)
    assert differences(running, old).restart == ()


def test_a_queue_is_not_opened_to_the_network_by_a_file_that_means_loopback() -> None:
    closed = "[queues.a]\n[queues.b]"
    opened = '[queues.a]\nlease = "1h"\naccess.post = "open"\n[queues.b]\nlease = "1h"'
    old, new = load(f"{NETWORK}{closed}"), load(opened)
    changes = differences(old, new)
    assert changes.now == ("queues.b.lease",)
    assert changes.restart == ("server.listen", "queues.a.lease", "queues.a.access.post")
    assert changes.config.queues["a"] == old.queues["a"]
    assert changes.config.queues["b"] == new.queues["b"]


def test_it_is_where_that_was_said_on_the_command_line() -> None:
    old = load(f"{NETWORK}[queues.a]", open_to_the_network=True)
    new = load(f'{NETWORK}[queues.a]\naccess.post = "open"', open_to_the_network=True)
    changes = differences(old, new)
    assert changes.now == ("queues.a.access.post",)
    assert changes.config.queues["a"].grants == Grants(post="open")
