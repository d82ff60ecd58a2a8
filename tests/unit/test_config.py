"""`leaseway.toml`: what it means, and that every mistake is told with file, key and what was expected."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from leaseway_server.config import Config, ServerConfig, is_loopback, load_config
from leaseway_server.config_table import LONGEST, ConfigRefused, Wrong, duration, spell
from leaseway_server.core.access import Grants
from leaseway_server.core.backoff import Backoff
from leaseway_server.core.lifecycle import Policy
from leaseway_server.core.queue import Limits

Write = Callable[[str], Path]

ONE_QUEUE = "[queues.resize]\n"
AN_ADDRESS = 'expected a host and a port such as "127.0.0.1:8787" or "[::1]:8787"'


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of one's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def write(here: Path) -> Write:
    def write(toml: str) -> Path:
        (here / "leaseway.toml").write_text(toml, encoding="utf-8")
        return Path("leaseway.toml")

    return write


def faults(**arguments: object) -> list[str]:
    with pytest.raises(ConfigRefused) as refused:
        load_config(None, **arguments)  # type: ignore[arg-type]  # each test names those that there are
    assert str(refused.value).splitlines() == [str(fault) for fault in refused.value.faults]
    return [str(fault) for fault in refused.value.faults]


def only_fault(toml: str, write: Write) -> str:
    write(toml)
    (fault,) = faults()
    return fault


# ── What it means ──


def test_without_a_file_one_open_queue_is_served_to_this_machine() -> None:
    config = load_config(None)
    assert config.file is None
    assert config.server == ServerConfig("127.0.0.1", 8787, Path("leaseway-data"))
    (demo,) = config.queues.values()
    assert (demo.queue.name, demo.queue.policy, demo.queue.limits) == ("demo", Policy(), Limits())
    assert demo.queue.schemas.documents() == {"item": None, "progress": None, "result": None}
    assert demo.grants == Grants("open", "open", "open", "open")


def test_what_a_file_does_not_say_has_its_default(write: Write) -> None:
    write(ONE_QUEUE)
    config = load_config(None)
    assert config.file == Path("leaseway.toml")
    assert config.server == ServerConfig()
    assert config.queues["resize"].queue.policy == Policy()
    assert config.queues["resize"].grants == Grants("users", "users", "users", frozenset())


def test_everything_that_can_be_said(write: Write) -> None:
    write("""
        [server]
        listen = "[::1]:9000"
        store = "sqlite:kept"
        admins = ["root", "Zoë"]
        max_message_bytes = 2_097_152
        resume_grace = "0s"
        ping_interval = "500ms"
        ping_timeout = "2s"

        [queues.resize]
        lease = "90s"
        progress_by = "10m"
        [queues.resize.access]
        post = "open"
        fetch = "users"
        work = ["box", "van"]
        admin = []
        [queues.resize.retry]
        max_attempts = 1
        max_losses = 1_000
        delays = ["0s", "1m"]
        cap = "1m"
        jitter = 0

        [queues.mail]
        progress_by = "off"
    """)
    config = load_config(None)
    assert config.server == ServerConfig(
        host="::1",
        port=9000,
        data=Path("kept"),
        resume_grace=0,
        ping_interval=500,
        ping_timeout=2_000,
        max_message_bytes=2_097_152,
        admins=frozenset({"root", "Zoë"}),
    )
    assert list(config.queues) == ["resize", "mail"]
    resize = config.queues["resize"]
    assert resize.queue.policy == Policy(90_000, 600_000, 1, 1_000, Backoff((0, 60_000), 60_000, 0.0))
    assert resize.queue.limits.message_bytes == 2_097_152
    assert resize.grants == Grants("open", "users", frozenset({"box", "van"}), frozenset())
    assert config.queues["mail"].queue.policy == Policy()


@pytest.mark.parametrize(
    ("text", "length"),
    [("0s", 0), ("500ms", 500), ("90s", 90_000), ("5m", 300_000), ("1h", 3_600_000), ("7d", 604_800_000)],
)
def test_durations(text: str, length: int) -> None:
    assert duration(text) == length


@pytest.mark.parametrize(
    "text", ["", "5", "5 m", "m", "1.5h", "-5m", "5M", "1h30m", "५m", "5m\n", "36501d", "9" * 99 + "s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(Wrong):
        duration(text)


@pytest.mark.parametrize("text", ["0ms", "1ms", "1500ms", "90s", "5m", "1h", "25h", "7d", spell(LONGEST)])
def test_durations_are_told_as_they_are_written(text: str) -> None:
    assert spell(duration(text)) == text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_what_only_this_machine_reaches(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["192.0.2.7", "::", "10.0.0.1", "example.com", "localhost.example.com"])
def test_what_others_reach(host: str) -> None:
    assert not is_loopback(host)


# ── Where it is found, and what comes first ──


def test_the_named_file_comes_before_the_environments_and_that_before_the_one_here(here: Path, write: Write) -> None:
    write("[queues.here]")
    (here / "b.toml").write_text("[queues.environment]")
    (here / "c.toml").write_text("[queues.named]")
    environ = {"LEASEWAY_CONFIG": "b.toml"}
    assert list(load_config(None).queues) == ["here"]
    assert list(load_config(None, environ={"LEASEWAY_CONFIG": ""}).queues) == ["here"]
    assert list(load_config(None, environ=environ).queues) == ["environment"]
    assert list(load_config(Path("c.toml"), environ=environ).queues) == ["named"]


def test_folders_in_a_file_are_relative_to_its_own(here: Path) -> None:
    folder = here / "etc"
    (folder / "schemas").mkdir(parents=True)
    (folder / "schemas" / "item.json").write_text("{}")
    (folder / "x.toml").write_text('[server]\nstore = "sqlite:kept"\n[queues.resize]\nschemas = "schemas"')
    config = load_config(Path("etc/x.toml"))
    assert config.server.data == Path("etc/kept")
    assert config.queues["resize"].queue.schemas.item is not None
    (folder / "x.toml").write_text(ONE_QUEUE)
    assert load_config(Path("etc/x.toml")).server.data == Path("etc/leaseway-data")


def test_options_come_before_the_environment_and_that_before_the_file(write: Write) -> None:
    write('[server]\nlisten = "127.0.0.1:1"\nstore = "sqlite:/srv/file"\n[queues.resize]')
    environ = {"LEASEWAY_LISTEN": "127.0.0.1:2", "LEASEWAY_STORE": "sqlite:environment"}

    def said(config: Config) -> tuple[int, Path]:
        return config.server.port, config.server.data

    assert said(load_config(None)) == (1, Path("/srv/file"))
    assert said(load_config(None, environ=environ)) == (2, Path("environment"))
    assert said(load_config(None, environ=environ, listen="127.0.0.1:3", store="sqlite:option")) == (3, Path("option"))


def test_what_was_said_outside_the_file_is_told_as_such() -> None:
    environ = {"LEASEWAY_LISTEN": "8787", "LEASEWAY_STORE": "here"}
    assert faults(environ=environ, listen="", store="sqlite:") == [
        f'environment: LEASEWAY_LISTEN: {AN_ADDRESS}, found "8787"',
        f'command line: --listen: {AN_ADDRESS}, found ""',
        'environment: LEASEWAY_STORE: expected "sqlite:" and a folder, such as "sqlite:leaseway-data"',
        'command line: --store: expected "sqlite:" and a folder, such as "sqlite:leaseway-data"',
    ]


# ── Files that cannot be read ──


def test_a_named_file_that_is_not_there() -> None:
    with pytest.raises(ConfigRefused, match=r"^nope\.toml: cannot be read: No such file or directory$"):
        load_config(Path("nope.toml"))
    assert faults(environ={"LEASEWAY_CONFIG": "no.toml"}) == ["no.toml: cannot be read: No such file or directory"]


def test_a_folder_in_its_place(here: Path) -> None:
    (here / "leaseway.toml").mkdir()
    assert faults() == ["leaseway.toml: cannot be read: Is a directory"]


def test_bytes_that_are_not_utf_8(here: Path) -> None:
    (here / "leaseway.toml").write_bytes(b"[queues.resize]\n# \xff")
    assert faults() == ["leaseway.toml: is not UTF-8, at byte 18"]


def test_what_is_not_toml(write: Write) -> None:
    fault = only_fault("[server]\nlisten: 8787\n", write)
    assert fault == "leaseway.toml: is not TOML: Expected '=' after a key in a key/value pair (at line 2, column 7)"


# ── Mistakes ──


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("listen = 8787", f"{AN_ADDRESS}, found 8787"),
        ('listen = ":8787"', f'{AN_ADDRESS}, found ":8787"'),
        (
            'listen = "::1:8787"',
            f'{AN_ADDRESS}, found "::1:8787"',
        ),
        ('listen = "[]:1"', f'{AN_ADDRESS}, found "[]:1"'),
        ('listen = "a:70000"', f'{AN_ADDRESS}, found "a:70000"'),
        ('listen = "a:-1"', f'{AN_ADDRESS}, found "a:-1"'),
        ('store = "kept"', 'expected "sqlite:" and a folder, such as "sqlite:leaseway-data"'),
        ("store = 1", 'expected "sqlite:" and a folder, such as "sqlite:leaseway-data"'),
        ('admins = "root"', 'expected a list of users such as ["alice"], found "root"'),
        ("admins = [1]", 'expected a list of users such as ["alice"], found [1]'),
        ('admins = [""]', 'expected a list of users such as ["alice"], found [""]'),
        ("resume_grace = 30", 'expected a duration such as "90s", "5m", "7d" or "500ms", found 30'),
        ('resume_grace = "soon"', 'expected a duration such as "90s", "5m", "7d" or "500ms", found "soon"'),
        ('resume_grace = "99999d"', 'expected a duration of at most 36500d, found "99999d"'),
        ('ping_interval = "0s"', 'expected a duration longer than 0, found "0s"'),
        ("ping_timeout = 1979-05-27", 'expected a duration such as "90s", "5m", "7d" or "500ms", found "1979-05-27"'),
        ("max_message_bytes = 1000", "expected a whole number from 262144 to 268435456, found 1000"),
        ("max_message_bytes = 1e6", "expected a whole number from 262144 to 268435456, found 1000000.0"),
        ("max_message_bytes = true", "expected a whole number from 262144 to 268435456, found true"),
        (f'admins = "{"x" * 99}"', f'expected a list of users such as ["alice"], found "{"x" * 58}…'),
    ],
)
def test_wrong_values_of_the_server(line: str, fault: str, write: Write) -> None:
    key = line.split(" =", maxsplit=1)[0]
    assert only_fault(f"[server]\n{line}\n{ONE_QUEUE}", write) == f"leaseway.toml: server.{key}: {fault}"


@pytest.mark.parametrize(
    ("toml", "fault"),
    [
        ("lease = 300", 'lease: expected a duration such as "90s", "5m", "7d" or "500ms", found 300'),
        ('lease = "20s"', "lease: expected at least 25s (ping_interval + ping_timeout), found 20s"),
        ("progress_by = false", 'progress_by: expected "off" or a duration such as "10m", found false'),
        ('progress_by = "0s"', 'progress_by: expected a duration longer than 0, found "0s"'),
        ("schemas = 1", "schemas: expected a text, found 1"),
        ('schemas = ""', 'schemas: expected a text, found ""'),
        ('access = "open"', 'access: expected a table, that is keys of its own, found "open"'),
        (
            'access.post = "alice"',
            'access.post: expected "open", "users" or a list of users such as ["alice"], found "alice"',
        ),
        (
            "access.work = true",
            'access.work: expected "open", "users" or a list of users such as ["alice"], found true',
        ),
        ("access.work = [true]", 'access.work: expected a list of users such as ["alice"], found [true]'),
        ("retry.max_attempts = 0", "retry.max_attempts: expected a whole number from 1 to 1000, found 0"),
        ("retry.max_losses = true", "retry.max_losses: expected a whole number from 1 to 1000, found true"),
        ("retry.delays = []", 'retry.delays: expected a list of durations such as ["30s", "2m"], found []'),
        ('retry.delays = "30s"', 'retry.delays: expected a list of durations such as ["30s", "2m"], found "30s"'),
        ("retry.delays = [30]", 'retry.delays: expected a duration such as "90s", "5m", "7d" or "500ms", found 30'),
        ('retry.delays = ["1s", "2h"]', "retry.delays: expected delays of at most 1h (cap), found 2h"),
        ('retry.cap = "1m"', "retry.delays: expected delays of at most 1m (cap), found 32m"),
        ("retry.jitter = 1", "retry.jitter: expected a number from 0 to below 1, such as 0.15, found 1"),
        ("retry.jitter = nan", "retry.jitter: expected a number from 0 to below 1, such as 0.15, found NaN"),
        ("retry.jitter = false", "retry.jitter: expected a number from 0 to below 1, such as 0.15, found false"),
        ('retry.jitter = "15%"', 'retry.jitter: expected a number from 0 to below 1, such as 0.15, found "15%"'),
    ],
)
def test_wrong_values_of_a_queue(toml: str, fault: str, write: Write) -> None:
    assert only_fault(f"{ONE_QUEUE}{toml}", write) == f"leaseway.toml: queues.resize.{fault}"


@pytest.mark.parametrize(
    ("toml", "fault"),
    [
        ("[queue.resize]\n[queues.resize]", 'queue: unknown key; did you mean "queues"?'),
        ("zzz = 1\n[queues.resize]", "zzz: unknown key; known here: server, queues"),
        ("[server]\nlissen = 1\n[queues.resize]", 'server.lissen: unknown key; did you mean "listen"?'),
        ("[queues.resize]\nleese = 1", 'queues.resize.leese: unknown key; did you mean "lease"?'),
        ("[queues.resize.access]\nadmins = []", 'queues.resize.access.admins: unknown key; did you mean "admin"?'),
        ("[queues.resize.retry]\ndelay = []", 'queues.resize.retry.delay: unknown key; did you mean "delays"?'),
        (
            '[queues.resize]\n"a b" = 1',
            'queues.resize."a b": unknown key; known here: retry, lease, progress_by, schemas, access',
        ),
    ],
)
def test_unknown_keys(toml: str, fault: str, write: Write) -> None:
    assert only_fault(toml, write) == f"leaseway.toml: {fault}"


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ('[server]\nallowed_origins = ["https://app.example.com"]\n[queues.resize]', "server.allowed_origins"),
        ("[server.limits]\nsubscriptions = 1\n[queues.resize]", "server.limits"),
        ('[queues.resize]\nmatch = ["format"]', "queues.resize.match"),
        ('[queues.resize]\ndedupe_window = "24h"', "queues.resize.dedupe_window"),
        ("[queues.resize]\nmax_pending = 1", "queues.resize.max_pending"),
        ("[queues.resize]\nmax_bulk_items = 1", "queues.resize.max_bulk_items"),
        ('[queues.resize]\nvisibility = "own"', "queues.resize.visibility"),
        ('[queues.resize.keep]\nfetched = "1h"', "queues.resize.keep"),
    ],
)
def test_what_this_version_does_not_have_is_refused_not_ignored(toml: str, key: str, write: Write) -> None:
    assert (
        only_fault(toml, write) == f"leaseway.toml: {key}: this version of Leaseway does not have this yet; take it out"
    )


def test_another_database_is_refused_without_showing_its_password(write: Write) -> None:
    for kind in ("postgresql", "postgres", "postgresq"):
        fault = only_fault(f'[server]\nstore = "{kind}://leaseway:s3cret@db/leaseway"\n[queues.resize]', write)
        assert fault.startswith("leaseway.toml: server.store: ")
        assert "s3cret" not in fault
    assert "PostgreSQL is not in this version" in only_fault('[server]\nstore = "postgresql:"\n[queues.resize]', write)


@pytest.mark.parametrize("name", ["Resize", "_health", "-x", "a.b", "é", "a b", "", "x" * 64])
def test_names_that_no_queue_can_have(name: str, write: Write) -> None:
    fault = only_fault(f"[queues.{json.dumps(name)}]", write)
    assert fault.endswith(": a queue's name has at most 63 of a-z, 0-9, - and _, and begins with a letter or digit")


@pytest.mark.parametrize("name", ["a", "0", "a-b_c", "x" * 63])
def test_names_that_a_queue_can_have(name: str, write: Write) -> None:
    write(f"[queues.{name}]")
    assert list(load_config(None).queues) == [name]


@pytest.mark.parametrize("toml", ["", "[queues]", '[server]\nlisten = "127.0.0.1:1"'])
def test_a_file_without_queues(toml: str, write: Write) -> None:
    assert only_fault(toml, write) == "leaseway.toml: queues: expected at least one queue, such as [queues.resize]"


@pytest.mark.parametrize("toml", ["queues = []", "server = 1\n[queues.a]", "[queues]\nresize = 1"])
def test_values_in_the_place_of_tables(toml: str, write: Write) -> None:
    assert "expected a table, that is keys of its own, found" in only_fault(toml, write)


def test_all_mistakes_are_told_at_once_each_with_its_key(write: Write) -> None:
    write("""
        [server]
        lisen = "127.0.0.1:1"
        ping_timeout = 5
        [server.limits]
        [queues.Resize]
        lease = "1s"
        [queues.mail]
        schemas = "nowhere"
        access.post = "me"
    """)
    assert [fault.split(": ")[1] for fault in faults(listen="x")] == [
        "--listen",
        "server.ping_timeout",
        "server.lisen",
        "server.limits",
        "queues.Resize",
        "queues.Resize.lease",
        "queues.mail.schemas",
        "queues.mail.access.post",
    ]


# ── Open to the network ──


def test_open_rights_stay_on_loopback_unless_told_otherwise(write: Write) -> None:
    toml = """
        [server]
        listen = "192.0.2.7:8787"
        [queues.a.access]
        post = "open"
        [queues.b]
        [queues.c.access]
        admin = "open"
    """
    assert only_fault(toml, write) == (
        "leaseway.toml: server.listen: expected a loopback address such as 127.0.0.1, since anyone may use "
        "a: post; c: post, fetch, work, admin; "
        "say who may in [queues.<name>.access], or start with --open-to-the-network"
    )
    assert load_config(None, open_to_the_network=True).server.host == "192.0.2.7"
    assert load_config(None, listen="[::1]:1").server.host == "::1"


def test_the_default_queue_is_not_shown_to_the_network() -> None:
    (fault,) = faults(environ={"LEASEWAY_LISTEN": "192.0.2.7:1"})
    assert fault.startswith("environment: LEASEWAY_LISTEN: expected a loopback address")
    (fault,) = faults(listen="[::]:1")
    assert fault.startswith("command line: --listen: expected a loopback address")


def test_closed_queues_may_be_served_to_the_network(write: Write) -> None:
    write(f'[server]\nlisten = "192.0.2.7:0"\n{ONE_QUEUE}')
    assert load_config(None).server.port == 0
