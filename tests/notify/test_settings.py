"""notify.toml: what it means, and what is refused with its file, its key and what was expected."""

from datetime import time
from pathlib import Path

import pytest

from leaseway_notify.notify_toml import VARIABLES, load_settings
from leaseway_notify.policy import BUILT_IN, MINUTE, TypePolicy
from leaseway_notify.settings import DAY, HOUR, Settings
from leaseway_notify.toml import SettingsRefused


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of one's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(toml: str, **environ: str) -> Settings:
    Path("notify.toml").write_text(toml, encoding="utf-8")
    return load_settings(environ=environ)


def faults(toml: str) -> list[str]:
    with pytest.raises(SettingsRefused) as refused:
        load(toml)
    assert str(refused.value).splitlines() == list(refused.value.faults)
    return [fault.removeprefix("notify.toml: ") for fault in refused.value.faults]


def test_without_a_file_the_defaults_of_the_design_hold() -> None:
    settings = load_settings()
    assert settings == Settings() == load("")
    assert (settings.plan.dedupe_window, settings.outbox.repost_every) == (DAY, MINUTE)
    assert (settings.keep.tokens, settings.keep.dead, settings.keep.portion) == (30 * DAY, 90 * DAY, 100)
    assert (settings.worker.in_flight, settings.worker.longest_wait) == (25, 3 * HOUR)
    assert not settings.email.tracking
    assert not settings.push.allow_private
    assert list(settings.policies()) == list(BUILT_IN)


def test_a_whole_file(here: Path) -> None:
    settings = load("""
        store = "sqlite:data/notify.db"
        [queue]
        url = "wss://queue.example.com/notification-deliveries"
        lease = "2m"
        [plan]
        dedupe_window = "12h"
        [outbox]
        repost_every = "30s"
        portion = 50
        [worker]
        in_flight = 10
        read_types = ["chat"]
        [email]
        transport = "smtp"
        sender = "app@example.com"
        host = "mail.example.com"
        port = 465
        security = "tls"
        username = "app"
        timeout = "15s"
        tracking = true
        templates = "templates"
        [push]
        keys = "vapid.pem"
        subject = "mailto:ops@example.com"
        timeout = "5s"
        [storm]
        most = 5
        [keep]
        dead = "30d"
        [service]
        listen = "[::1]:9000"
        public_url = "https://notify.example.com/"
        [types.chat]
        batch = { email = "5m", push = "30s" }
        [types.invoice]
        channels = ["email"]
        priority = "low"
        digest = "07:30"
        hourly = { email = 2 }
        [types.digest]
        digest = "off"
        """)
    assert settings.store == "sqlite:data/notify.db"
    assert (settings.queue.lease, settings.plan.dedupe_window) == (2 * MINUTE, 12 * HOUR)
    assert (settings.outbox.repost_every, settings.outbox.portion) == (30_000, 50)
    assert (settings.worker.in_flight, settings.worker.read_types) == (10, frozenset({"chat"}))
    email = settings.email
    assert (email.security, email.port, email.timeout, email.tracking) == ("tls", 465, 15_000, True)
    assert email.templates == Path("templates")
    assert settings.push.keys == Path("vapid.pem")
    assert (settings.service.host, settings.service.port) == ("::1", 9000)
    assert settings.service.public_url == "https://notify.example.com"
    assert settings.service.internal_url == "http://[::1]:9000"
    assert settings.types["chat"] == TypePolicy(batch={"email": 5 * MINUTE, "push": 30_000}, hourly={"email": 1})
    assert settings.types["invoice"] == TypePolicy(
        channels=frozenset({"email"}), priority="low", digest=time(7, 30), hourly={"email": 2}
    )
    assert settings.types["digest"].digest is None
    assert settings.worst_case == 45_000


def test_folders_are_relative_to_the_file_and_secrets_come_from_the_environment(here: Path) -> None:
    (here / "conf").mkdir()
    (here / "conf" / "n.toml").write_text(
        'store = "sqlite:n.db"\n[push]\nkeys = "k.pem"\nsubject = "https://example.com"'
    )
    settings = load_settings(Path("conf/n.toml"))
    assert (settings.store, settings.push.keys) == ("sqlite:conf/n.db", Path("conf/k.pem"))
    said = load(
        '[queue]\ntoken = "file"\n',
        LEASEWAY_NOTIFY_STORE="postgresql://ada:geheim@db/app",
        LEASEWAY_NOTIFY_TOKEN="lw_token",
        LEASEWAY_NOTIFY_SMTP_PASSWORD="geheim",
        LEASEWAY_NOTIFY_PROVIDER_KEY="",
    )
    assert (said.store, said.queue.token) == ("postgresql://ada:geheim@db/app", "lw_token")
    assert (said.email.password, said.email.provider_key) == ("geheim", None)
    assert "geheim" not in repr(said)


A_URL = "expected a URL that begins with"


def too_short(least: str, found: str, push: str) -> str:
    return (
        f"queue.lease: expected at least {least}, found {found}: a delivery may take the longest timeout of a provider "
        f"(email.timeout 20s, push.timeout {push}) and 30s for the store; lower the timeouts, or raise the queue's "
        "lease and say so here"
    )


@pytest.mark.parametrize(
    ("toml", "fault"),
    [
        ("store = 7", 'store: expected "sqlite:FILE" or "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"'),
        ('store = "mysql://a:secret@b"',
         'store: expected "sqlite:FILE" or "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"'),
        ("queu = 7", 'queu: unknown key; did you mean "queue"?'),
        ("plan = 7", "plan: expected a table, that is keys of its own, found 7"),
        ("[plan]\nwindow = 1", 'plan.window: unknown key; did you mean "dedupe_window"?'),
        ('[plan]\ndedupe_window = "0s"',
         'plan.dedupe_window: expected a duration such as "90s", "5m" or "7d", found "0s"'),
        ('[plan]\ndedupe_window = "99999d"',
         'plan.dedupe_window: expected a duration such as "90s", "5m" or "7d", found "99999d"'),
        ("[outbox]\nportion = 0", "outbox.portion: expected a whole number from 1 to 10_000, found 0"),
        ("[worker]\nin_flight = true", "worker.in_flight: expected a whole number from 1 to 1_000, found true"),
        ('[worker]\nread_types = ["A"]',
         "worker.read_types: expected a name such as mention: a-z, then a-z, 0-9, _, . and -, at most 63"),
        ('[worker]\nread_types = "chat"', 'worker.read_types: expected a list, found "chat"'),
        ('[queue]\nurl = "http://a"', f'queue.url: {A_URL} ws:// or wss://, found "http://a"'),
        ('[queue]\nurl = "ws://[a"', f'queue.url: {A_URL} ws:// or wss://, found "ws://[a"'),
        ("[queue]\ntoken = 5", "queue.token: expected a text on one line"),
        ('[queue]\nlease = "40s"', too_short("50s", "40s", "10s")),
        ('[push]\ntimeout = "5m"', too_short("330s", "5m", "5m")),
        ('[email]\ntransport = "smtp"', 'email.sender: is needed where email.transport is "smtp"'),
        ('[email]\ntransport = "fax"', 'email.transport: expected "off" or "smtp" or "provider", found "fax"'),
        ('[email]\nname = "a\\nb"', 'email.name: expected a text on one line, found "a\\nb"'),
        ("[email]\ntracking = 1", "email.tracking: expected true or false, found 1"),
        ('[push]\nkeys = "k.pem"',
         "push.subject: is needed where there are keys: push services write to whom it names"),
        ('[push]\nsubject = "ops"', 'push.subject: expected "mailto:" and an address, or an https URL, found "ops"'),
        ('[push]\nsubject = "mailto:ops@localhost"',
         'push.subject: expected "mailto:" and an address, or an https URL, found "mailto:ops@localhost"'),
        ('[service]\nlisten = "8790"',
         'service.listen: expected a host and a port such as "127.0.0.1:8790", found "8790"'),
        ('[service]\nlisten = "a:70000"',
         'service.listen: expected a host and a port such as "127.0.0.1:8790", found "a:70000"'),
        ("[types.Chat]", "types.Chat: expected a name such as mention: a-z, then a-z, 0-9, _, . and -, at most 63"),
        ('[types.chat]\nchannels = ["fax"]',
         'types.chat.channels: expected "in_app" or "push" or "email", found "fax"'),
        ('[types.chat]\nbatch = { fax = "1m" }', "types.chat.batch.fax: unknown key; known here: in_app, push, email"),
        ("[types.chat]\nbatch = { email = 1 }",
         'types.chat.batch.email: expected a duration such as "90s", "5m" or "7d", found 1'),
        ('[types.chat]\ndigest = "8"',
         'types.chat.digest: expected "off" or a time of the day such as "08:00", found "8"'),
        ("[types.chat]\ndigset = 1", 'types.chat.digset: unknown key; did you mean "digest"?'),
        ("[types.chat]\nhour = 1", 'types.chat.hour: unknown key; did you mean "hourly"?'),
        ('[types]\n"a b" = {}',
         'types."a b": expected a name such as mention: a-z, then a-z, 0-9, _, . and -, at most 63'),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_mistake_is_told_with_its_key(toml: str, fault: str) -> None:
    assert faults(toml) == [fault]


def test_all_mistakes_are_told_at_once() -> None:
    assert len(faults('[email]\ntransport = "provider"\n[plan]\nx = 1\n[keep]\ndead = "x"')) == 5


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"a = ", "is not TOML: Invalid value"),
        (b"a = \xff", "is not UTF-8"),
        (b"a = " + b"[" * 10_000, "is nested too deeply"),
        (b"a = " + b"1" * 5_000, "is not TOML: Exceeds the limit"),
    ],
)
def test_what_is_no_toml_is_told(data: bytes, fault: str) -> None:
    Path("notify.toml").write_bytes(data)
    with pytest.raises(SettingsRefused) as refused:
        load_settings()
    assert str(refused.value).startswith(f"notify.toml: {fault}")


def test_a_variable_of_a_table_that_is_none_is_no_matter() -> None:
    Path("notify.toml").write_text("queue = 7")
    with pytest.raises(SettingsRefused, match=r"^notify.toml: queue: expected a table"):
        load_settings(environ={"LEASEWAY_NOTIFY_TOKEN": "lw_token"})


BAD_VALUES = {
    "LEASEWAY_NOTIFY_STORE": "mysql://root@db/app",
    "LEASEWAY_NOTIFY_TOKEN": "one\ntwo",
    "LEASEWAY_NOTIFY_SMTP_PASSWORD": "one\ntwo",
    "LEASEWAY_NOTIFY_PROVIDER_KEY": "one\ntwo",
    "LEASEWAY_NOTIFY_SERVICE_TOKEN": "short",
    "LEASEWAY_NOTIFY_SERVICE_SECRET": "short",
}


@pytest.mark.parametrize("variable", VARIABLES)
def test_what_a_variable_says_is_not_the_files_fault(variable: str) -> None:
    Path("notify.toml").write_text('[service]\nport = 1\n[queue]\nlease = "5m"\n')
    with pytest.raises(SettingsRefused) as refused:
        load_settings(environ={variable: BAD_VALUES[variable]}, listen="nowhere")
    assert len(refused.value.faults) == 3
    assert {fault.partition(": ")[0] for fault in refused.value.faults} == {variable, "--listen", "notify.toml"}
    assert BAD_VALUES[variable] not in str(refused.value)


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(SettingsRefused, match=r"^other.toml: cannot be read: No such file"):
        load_settings(Path("other.toml"))
