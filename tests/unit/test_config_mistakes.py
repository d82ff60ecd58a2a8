"""Every mistake in `leaseway.toml` is told with file, key and what was expected, and all of them at once."""

import json
from pathlib import Path
from typing import Final

import pytest

from leaseway_server.config import ConfigRefused, load_config

A_DURATION = 'expected a duration such as "90s", "5m", "7d" or "500ms"'
USERS = 'expected a list of users such as ["alice"]'
GRANT = 'expected "open", "users" or a list of users such as ["alice"]'
A_TABLE = "expected a table, that is keys of its own"
A_SHARE = "expected a number from 0 to below 1, such as 0.15"
TO_POST = 'expected "all" while anyone may post (access.post or access.admin is "open")'
QUEUE_KEYS = (
    "schemas, max_bulk_items, lease, progress_by, retry, dedupe_window, max_pending, visibility, keep, match, access"
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


A_STORE: Final = (
    'expected "sqlite:" and a folder, such as "sqlite:leaseway-data" or "sqlite:/var/lib/leaseway", '
    'or the URL of a database, such as "postgresql://leaseway@db.example.com/leaseway"'
)


def faults(toml: str) -> list[str]:
    """All that is wrong with a file; each without the file's name."""
    Path("leaseway.toml").write_text(toml, encoding="utf-8")
    with pytest.raises(ConfigRefused) as refused:
        load_config(None)
    assert {fault.file for fault in refused.value.faults} == {"leaseway.toml"}
    return [str(fault).removeprefix("leaseway.toml: ") for fault in refused.value.faults]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("listen = 8787", 'expected a host and a port such as "127.0.0.1:8787" or "[::1]:8787", found 8787'),
        ('listen = "a:70000"', 'expected a port of at most 65535, found "a:70000"'),
        ("store = 1", A_STORE),
        ('admins = "root"', f'{USERS}, found "root"'),
        ("admins = [1]", "expected a user's name of 1 to 200 characters, none of them a control, found 1"),
        (f'admins = "{"x" * 99}"', f'{USERS}, found "{"x" * 58}…'),
        ('allowed_origins = "*"', 'expected a list of origins such as ["https://app.example.com"], found "*"'),
        ("resume_grace = 30", f"{A_DURATION}, found 30"),
        ('resume_grace = "soon"', f'{A_DURATION}, found "soon"'),
        ('resume_grace = "99999d"', 'expected a duration of at most 36500d, found "99999d"'),
        ('ping_interval = "0s"', 'expected a duration longer than 0, found "0s"'),
        ("ping_timeout = 1979-05-27", f'{A_DURATION}, found "1979-05-27"'),
        ("max_message_bytes = 1000", "expected a whole number from 262_144 to 268_435_456, found 1000"),
        ("max_message_bytes = 1e6", "expected a whole number from 262_144 to 268_435_456, found 1000000.0"),
        ("max_message_bytes = true", "expected a whole number from 262_144 to 268_435_456, found true"),
        ("limits = 5", f"{A_TABLE}, found 5"),
        ("limits.connections_per_address = 0", "expected a whole number from 1 to 1_000_000_000, found 0"),
        ("limits.messages_per_second = 99", "expected a whole number from 100 to 1_000_000_000, found 99"),
        ("limits.bytes_per_second = 104_856", "expected at least 104857 (a tenth of max_message_bytes), found 104856"),
        ("limits.request_timeout = 30", f"{A_DURATION}, found 30"),
        (
            'limits.trusted_proxies = "::1"',
            'expected a list of addresses and networks such as ["127.0.0.1", "10.0.0.0/8"], found "::1"',
        ),
    ],
)
def test_wrong_values_of_the_server(line: str, fault: str) -> None:
    key = line.split(" =", maxsplit=1)[0]
    assert faults(f"[server]\n{line}\n[queues.resize]") == [f"server.{key}: {fault}"]


@pytest.mark.protocol("2.25")
@pytest.mark.parametrize(
    ("toml", "fault"),
    [
        ("lease = 300", f"lease: {A_DURATION}, found 300"),
        ('lease = "20s"', "lease: expected at least 25s (ping_interval + ping_timeout), found 20s"),
        ("progress_by = false", 'progress_by: expected "off" or a duration such as "10m", found false'),
        ('progress_by = "0s"', 'progress_by: expected a duration longer than 0, found "0s"'),
        ("schemas = 1", "schemas: expected a folder, as a text, found 1"),
        ('schemas = ""', 'schemas: expected a folder, as a text, found ""'),
        ('schemas = "a\\u0000"', r'schemas: expected a folder, as a text, found "a\u0000"'),
        ("max_pending = -1", "max_pending: expected a whole number from 0 to 1_000_000_000, found -1"),
        ('visibility = "mine"', 'visibility: expected "all" or "own", found "mine"'),
        ("visibility = ['own']", 'visibility: expected "all" or "own", found ["own"]'),
        ('visibility = "own"\naccess.post = "open"', f'visibility: {TO_POST}, found "own"'),
        ('visibility = "own"\naccess.admin = "open"', f'visibility: {TO_POST}, found "own"'),
        ('match = "a"', 'match: expected a list of at most 8 members such as ["format", "size.width"], found "a"'),
        ("dedupe_window = 1", f"dedupe_window: {A_DURATION}, found 1"),
        ("max_bulk_items = 0", "max_bulk_items: expected a whole number from 1 to 10_000, found 0"),
        ("keep = '1d'", f'keep: {A_TABLE}, found "1d"'),
        ("keep.dead = false", f"keep.dead: {A_DURATION}, found false"),
        ('access = "open"', f'access: {A_TABLE}, found "open"'),
        ('access.post = "alice"', f'access.post: {GRANT}, found "alice"'),
        ("access.work = true", f"access.work: {GRANT}, found true"),
        ("retry.max_attempts = 0", "retry.max_attempts: expected a whole number from 1 to 1_000, found 0"),
        ("retry.max_losses = true", "retry.max_losses: expected a whole number from 1 to 1_000, found true"),
        ("retry.delays = []", 'retry.delays: expected a list of durations such as ["30s", "2m"], found []'),
        ('retry.delays = "30s"', 'retry.delays: expected a list of durations such as ["30s", "2m"], found "30s"'),
        ("retry.delays = [30]", f"retry.delays: {A_DURATION}, found 30"),
        ('retry.delays = ["1s", "2h"]', "retry.delays: expected delays of at most 1h (cap), found 2h"),
        ('retry.cap = "1m"', "retry.delays: expected delays of at most 1m (cap), found 32m"),
        ("retry.jitter = 1", f"retry.jitter: {A_SHARE}, found 1"),
        ("retry.jitter = nan", f"retry.jitter: {A_SHARE}, found NaN"),
        ("retry.jitter = false", f"retry.jitter: {A_SHARE}, found false"),
        ('retry.jitter = "15%"', f'retry.jitter: {A_SHARE}, found "15%"'),
    ],
)
def test_wrong_values_of_a_queue(toml: str, fault: str) -> None:
    assert faults(f"[queues.resize]\n{toml}") == [f"queues.resize.{fault}"]


@pytest.mark.parametrize(
    ("toml", "fault"),
    [
        ("[queue.resize]\n[queues.resize]", 'queue: unknown key; did you mean "queues"?'),
        ("zzz = 1\n[queues.resize]", "zzz: unknown key; known here: server, queues"),
        ("[server]\nlissen = 1\n[queues.resize]", 'server.lissen: unknown key; did you mean "listen"?'),
        (
            "[server.limits]\nids_message = 1\n[queues.resize]",
            'server.limits.ids_message: unknown key; did you mean "ids_per_message"?',
        ),
        ("[queues.resize]\nleese = 1", 'queues.resize.leese: unknown key; did you mean "lease"?'),
        ("[queues.resize.access]\nadmins = []", 'queues.resize.access.admins: unknown key; did you mean "admin"?'),
        ("[queues.resize.retry]\ndelay = []", 'queues.resize.retry.delay: unknown key; did you mean "delays"?'),
        ("[queues.resize.keep]\nfinish = 1", 'queues.resize.keep.finish: unknown key; did you mean "finished"?'),
        ('[queues.resize]\n"ä b" = 1', f'queues.resize."ä b": unknown key; known here: {QUEUE_KEYS}'),
    ],
)
def test_unknown_keys(toml: str, fault: str) -> None:
    assert faults(toml) == [fault]


@pytest.mark.parametrize("key", ["store", "listen_url", "listen", "admins", "resume_grace", "port", "allowed_origins"])
@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresq"])
def test_the_password_of_a_database_is_not_shown_wherever_it_stands(key: str, scheme: str) -> None:
    for url in (f"{scheme}://leaseway:s3cret@db/a/b", f"{scheme}://leaseway:s3/cret@db", f"{scheme}://s3cret@x@db"):
        (fault, *_) = faults(f'[server]\n{key} = "{url}"\n[queues.resize]')
        assert fault.startswith(f"server.{key}: ")
        assert "s3" not in fault
        assert "cret" not in fault


def test_where_to_listen_is_for_a_database_alone() -> None:
    url = "postgresql://db/leaseway"
    for store in ("", 'store = "sqlite:x"\n'):
        assert faults(f'[server]\n{store}listen_url = "{url}"\n[queues.resize]') == [
            "server.listen_url: is for a store in PostgreSQL, and the store here is in SQLite; take it out"
        ]
    (fault,) = faults(f'[server]\nstore = "{url}"\nlisten_url = "sqlite:x"\n[queues.resize]')
    assert fault.startswith('server.listen_url: expected the URL of a database, such as "postgresql://')


@pytest.mark.protocol("0.7", "0.8")
@pytest.mark.parametrize("name", ["Resize", "_health", "-x", "a.b", "é", "a b", "", "x" * 64])
def test_names_that_no_queue_can_have(name: str) -> None:
    (fault,) = faults(f"[queues.{json.dumps(name)}]")
    assert fault.endswith(": a queue's name has at most 63 of a-z, 0-9, - and _, and begins with a letter or digit")


@pytest.mark.protocol("0.7")
@pytest.mark.parametrize("name", ["a", "0", "a-b_c", "x" * 63])
def test_names_that_a_queue_can_have(name: str) -> None:
    Path("leaseway.toml").write_text(f"[queues.{name}]")
    assert list(load_config(None).queues) == [name]


@pytest.mark.parametrize("toml", ["", "[queues]", '[server]\nlisten = "127.0.0.1:1"'])
def test_a_file_without_queues(toml: str) -> None:
    assert faults(toml) == ["queues: expected at least one queue, such as [queues.resize]"]


@pytest.mark.parametrize("toml", ["queues = []", "server = 1\n[queues.a]", "[queues]\nresize = 1"])
def test_values_in_the_place_of_tables(toml: str) -> None:
    (fault,) = faults(toml)
    assert f"{A_TABLE}, found" in fault


def test_all_mistakes_are_told_at_once_each_with_its_key() -> None:
    toml = """
        [server]
        lisen = "127.0.0.1:1"
        ping_timeout = 5
        allowed_origins = ["*", "https://app.example.com", "app.example.com"]
        [server.limits]
        subscriptions = 0
        trusted_proxies = ["localhost"]
        [queues.Resize]
        lease = "1s"
        [queues.mail]
        schemas = "nowhere"
        keep.finished = "week"
        access.post = "me"
    """
    assert [fault.split(": ")[0] for fault in faults(toml)] == [
        "server.ping_timeout",
        "server.allowed_origins",
        "server.allowed_origins",
        "server.limits.subscriptions",
        "server.limits.trusted_proxies",
        "server.lisen",
        "queues.Resize",
        "queues.Resize.lease",
        "queues.mail.schemas",
        "queues.mail.keep.finished",
        "queues.mail.access.post",
    ]
