"""`leaseway.toml`, the environment and the command line: what they mean, and which comes first."""

from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import pytest

from leaseway_server.config import (
    Config,
    ConfigRefused,
    ServerConfig,
    ServerLimits,
    is_loopback,
    load_config,
    reload_config,
)
from leaseway_server.core.access import Grants
from leaseway_server.core.backoff import Backoff
from leaseway_server.core.policy import Policy
from leaseway_server.core.queue import Limits, Queue
from leaseway_server.core.retention import Keep
from leaseway_server.store.place import SqliteFolder

Write = Callable[[str], Path]

ONE_QUEUE = "[queues.resize]\n"
AN_ADDRESS = 'expected a host and a port such as "127.0.0.1:8787" or "[::1]:8787"'
AN_ORIGIN = 'expected an origin as browsers send it, such as "https://app.example.com" (no path, no *), or "null"'
A_STORE = (
    'expected "sqlite:" and a folder, such as "sqlite:leaseway-data" or "sqlite:/var/lib/leaseway", '
    'or the URL of a database, such as "postgresql://leaseway@db.example.com/leaseway"'
)


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
    assert config.server == ServerConfig("127.0.0.1", 8787, SqliteFolder(Path("leaseway-data")))
    (demo,) = config.queues.values()
    assert demo.queue == Queue("demo")
    assert demo.grants == Grants("open", "open", "open", "open")


@pytest.mark.protocol("1.53", "2.14")
def test_what_a_file_does_not_say_has_its_default(write: Write) -> None:
    write(ONE_QUEUE)
    config = load_config(None)
    assert config.file == Path("leaseway.toml")
    assert config.server == ServerConfig()
    assert config.server.trusted_proxies == (ip_network("127.0.0.1"), ip_network("::1"))
    resize = config.queues["resize"]
    assert resize.queue == Queue("resize")
    assert resize.grants == Grants("users", "users", "users", frozenset())


def test_everything_that_can_be_said_of_the_server(write: Write) -> None:
    write("""
        [server]
        listen = "[::1]:9000"
        store = "sqlite:kept"
        admins = ["root", "Zoë"]
        allowed_origins = ["https://app.example.com", "null"]
        max_message_bytes = 2_097_152
        resume_grace = "0s"
        ping_interval = "500ms"
        ping_timeout = "2s"
        [server.limits]
        connections_per_address = 1
        connections_per_token = 2
        messages_per_second = 300
        bytes_per_second = 4_000_000
        bad_messages = 5
        failed_tokens_per_minute = 6
        subscriptions = 7
        ids_per_message = 8
        waiting_claims_per_token = 9
        request_timeout = "10s"
        trusted_proxies = ["10.0.0.0/8", "fd00::1"]
        [queues.resize]
    """)
    config = load_config(None)
    assert config.server == ServerConfig(
        host="::1",
        port=9000,
        store=SqliteFolder(Path("kept")),
        admins=frozenset({"root", "Zoë"}),
        allowed_origins=frozenset({"https://app.example.com", "null"}),
        max_message_bytes=2_097_152,
        resume_grace=0,
        ping_interval=500,
        ping_timeout=2_000,
        limits=ServerLimits(
            connections_per_address=1,
            connections_per_token=2,
            messages_per_second=300,
            bytes_per_second=4_000_000,
            bad_messages=5,
            failed_tokens_per_minute=6,
            waiting_claims_per_token=9,
            request_timeout=10_000,
        ),
        subscriptions=7,
        ids_per_message=8,
        trusted_proxies=(ip_network("10.0.0.0/8"), ip_network("fd00::1")),
    )
    assert config.queues["resize"].queue.limits == Limits(message_bytes=2_097_152, subscriptions=7, ids=8)


def test_everything_that_can_be_said_of_a_queue(write: Write) -> None:
    write("""
        [queues.resize]
        lease = "90s"
        progress_by = "10m"
        max_pending = 0
        visibility = "own"
        match = ["format", "size.width"]
        dedupe_window = "0s"
        max_bulk_items = 10_000
        [queues.resize.access]
        post = "users"
        fetch = "open"
        work = ["box", "van"]
        admin = []
        [queues.resize.retry]
        max_attempts = 1
        max_losses = 1_000
        delays = ["0s", "1m"]
        cap = "1m"
        jitter = 0
        [queues.resize.keep]
        fetched = "0s"
        finished = "1s"
        failed = "2s"
        dead = "3s"
        cancelled = "4s"
        expired = "5s"

        [queues.mail]
        progress_by = "off"
        visibility = "all"
    """)
    config = load_config(None)
    assert list(config.queues) == ["resize", "mail"]
    resize, mail = config.queues.values()
    policy = Policy(90_000, 600_000, 1, 1_000, Backoff((0, 60_000), 60_000, 0.0), 0)
    keep = Keep(0, 1_000, 2_000, 3_000, 4_000, 5_000)
    limits, match = Limits(bulk_items=10_000), ("format", "size.width")
    assert resize.queue == Queue("resize", policy, limits=limits, max_pending=0, own_only=True, keep=keep, match=match)
    assert resize.grants == Grants("users", "open", frozenset({"box", "van"}), frozenset())
    assert mail.queue == Queue("mail")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_what_only_this_machine_reaches(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["192.0.2.7", "::", "0" + ".0" * 3, "10.0.0.1", "example.com", "localhost.example.com"]
)
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
    assert config.server.store == SqliteFolder(Path("etc/kept"))
    assert config.queues["resize"].queue.schemas.item is not None
    (folder / "x.toml").write_text(ONE_QUEUE)
    assert load_config(Path("etc/x.toml")).server.store == SqliteFolder(Path("etc/leaseway-data"))


def test_options_come_before_the_environment_and_that_before_the_file(write: Write) -> None:
    write('[server]\nlisten = "127.0.0.1:1"\nstore = "sqlite:/srv/file"\n[queues.resize]')
    environ = {"LEASEWAY_LISTEN": "127.0.0.1:2", "LEASEWAY_STORE": "sqlite:environment", "LEASEWAY_TOKEN": "lw_x"}

    def said(config: Config) -> tuple[int, str]:
        return config.server.port, str(config.server.store)

    assert said(load_config(None)) == (1, "sqlite:/srv/file")
    assert said(load_config(None, environ=environ)) == (2, "sqlite:environment")
    assert said(load_config(None, environ=environ, listen="127.0.0.1:3", store="sqlite:option")) == (3, "sqlite:option")
    assert "lw_x" not in repr(load_config(None, environ=environ))


def test_what_was_said_outside_the_file_is_told_as_such() -> None:
    environ = {"LEASEWAY_LISTEN": "8787", "LEASEWAY_STORE": "here"}
    assert faults(environ=environ, listen="", store="sqlite:", queues="dem", allow_origins=["https://a/"]) == [
        f'environment: LEASEWAY_LISTEN: {AN_ADDRESS}, found "8787"',
        f'command line: --listen: {AN_ADDRESS}, found ""',
        f"environment: LEASEWAY_STORE: {A_STORE}",
        f"command line: --store: {A_STORE}",
        f'command line: --allow-origin: {AN_ORIGIN}, found "https://a/"; did you mean "https://a"?',
        'command line: --queues: dem: unknown queue; did you mean "demo"?',
    ]


def test_origins_on_the_command_line_are_added_to_the_files(write: Write) -> None:
    assert load_config(None, allow_origins=["null"]).server.allowed_origins == {"null"}
    write(f'[server]\nallowed_origins = ["https://a.example"]\n{ONE_QUEUE}')
    origins = load_config(None, allow_origins=["null", "https://b.example"]).server.allowed_origins
    assert origins == {"https://a.example", "https://b.example", "null"}


def test_a_part_of_the_file_may_be_served(write: Write) -> None:
    write('[queues.a]\n[queues.b]\naccess.post = "open"\n[queues.c]')
    assert list(load_config(None, queues="c").queues) == ["c"]
    assert list(load_config(None, queues="c, a,").queues) == ["a", "c"]
    assert load_config(None, queues="a,c", listen="192.0.2.7:1").server.host == "192.0.2.7"
    assert faults(queues="d,a") == ["command line: --queues: d: unknown queue; known here: a, b, c"]
    assert faults(queues="") == ['command line: --queues: expected names of queues such as resize,mail, found ""']
    assert faults(queues="a", listen="") == [f'command line: --listen: {AN_ADDRESS}, found ""']
    write('[queues.a]\n[queues.b]\nlease = "soon"')
    (fault,) = faults(queues="a")
    assert fault.startswith("leaseway.toml: queues.b.lease: ")


# ── Reading it anew ──


def test_the_same_file_is_read_anew_with_what_was_said_outside(here: Path) -> None:
    (here / "x.toml").write_text(ONE_QUEUE)
    said = {"listen": "127.0.0.1:1", "store": "sqlite:s", "queues": "resize", "allow_origins": ["null"]}
    config = load_config(Path("x.toml"), log="terminal", **said)  # type: ignore[arg-type]  # they are as they should be
    assert reload_config(config) == config
    (here / "x.toml").write_text('[queues.resize]\nlease = "1h"\n[queues.mail]')
    again = reload_config(config)
    assert again.server == config.server
    assert {name: queue.queue.policy.lease for name, queue in again.queues.items()} == {"resize": 3_600_000}


def test_a_file_that_is_gone_is_not_the_default(write: Write) -> None:
    write(ONE_QUEUE)
    config = load_config(None)
    Path("leaseway.toml").unlink()
    with pytest.raises(ConfigRefused, match=r"^leaseway\.toml: cannot be read: No such file or directory$"):
        reload_config(config)


def test_a_file_that_came_is_read(write: Write) -> None:
    config = load_config(None)
    assert reload_config(config) == config
    write(ONE_QUEUE)
    assert list(reload_config(config).queues) == ["resize"]


# ── Files that cannot be read ──


def test_a_named_file_that_is_not_there() -> None:
    with pytest.raises(ConfigRefused, match=r"^nope\.toml: cannot be read: No such file or directory$"):
        load_config(Path("nope.toml"))
    assert faults(environ={"LEASEWAY_CONFIG": "no.toml"}) == ["no.toml: cannot be read: No such file or directory"]


def test_a_link_that_leads_nowhere_is_not_the_default(here: Path) -> None:
    (here / "leaseway.toml").symlink_to("gone.toml")
    assert faults() == ["leaseway.toml: cannot be read: No such file or directory"]


def test_a_folder_in_its_place(here: Path) -> None:
    (here / "leaseway.toml").mkdir()
    assert faults() == ["leaseway.toml: cannot be read: Is a directory"]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"[queues.resize]\n# \xff", "is not UTF-8 (at line 2)"),
        (
            b"[server]\nlisten: 8787\n",
            "is not TOML: Expected '=' after a key in a key/value pair (at line 2, column 7)",
        ),
        (b"x = " + b"[" * 9_999, "is nested too deeply"),
        (b"x = " + b"9" * 9_999, "has an integer of thousands of digits"),
    ],
)
def test_what_is_not_toml(here: Path, data: bytes, fault: str) -> None:
    (here / "leaseway.toml").write_bytes(data)
    assert faults() == [f"leaseway.toml: {fault}"]


def test_the_marks_of_other_systems_are_no_fault(here: Path) -> None:
    (here / "leaseway.toml").write_bytes(b"\xef\xbb\xbf[queues.resize]\r\nlease = '90s'\r\n")
    assert load_config(None).queues["resize"].queue.policy.lease == 90_000


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
