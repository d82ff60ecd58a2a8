"""`leaseway serve`, `check` and `token`: what they print, where, and with which status they end."""

import json
import sys
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Final

import click
import pytest
from click.testing import CliRunner, Result

from leaseway_server.commands import check, serve, token
from leaseway_server.config import Config
from leaseway_server.core.access import hash_token
from support.tokens import TokenFile, at_once

DAY = 86_400_000


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of one's own, and nothing said by the environment."""
    monkeypatch.chdir(tmp_path)
    for variable in ("LEASEWAY_CONFIG", "LEASEWAY_LISTEN", "LEASEWAY_STORE"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """What would be served: the server itself has tests of its own. It ends with status 1."""
    configs: list[Config] = []

    def run(config: Config) -> int:
        configs.append(config)
        return 1

    module = ModuleType("leaseway_server.__main__")
    module.run = run  # type: ignore[attr-defined]  # a stand-in for the module's function
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return configs


def call(command: click.Command, *words: str) -> Result:
    result = CliRunner().invoke(command, words)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def new(*words: str) -> tuple[dict[str, object], Result]:
    result = call(token, "new", "--json", *words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result


def listed() -> list[dict[str, object]]:
    return list(json.loads(call(token, "list", "--json").stdout))


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# ── serve ──


def test_serve_runs_the_default_and_ends_with_the_servers_status(served: list[Config]) -> None:
    assert call(serve).exit_code == 1
    (config,) = served
    assert config.file is None
    assert list(config.queues) == ["demo"]


def test_serve_takes_its_options_and_the_environment(
    here: Path, served: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "x.toml").write_text("[queues.resize]")
    monkeypatch.setenv("LEASEWAY_STORE", "sqlite:environment")
    call(serve, "--config", "x.toml", "--listen", "127.0.0.1:0")
    call(serve, "--config", "x.toml", "--store", "sqlite:option", "--listen", "192.0.2.7:1")
    call(serve, "--listen", "192.0.2.7:1", "--open-to-the-network")
    assert [(config.file, config.server.host, config.server.port, str(config.server.store)) for config in served] == [
        (Path("x.toml"), "127.0.0.1", 0, "sqlite:environment"),
        (Path("x.toml"), "192.0.2.7", 1, "sqlite:option"),
        (None, "192.0.2.7", 1, "sqlite:environment"),
    ]


def test_serve_does_not_start_with_a_wrong_configuration(here: Path, served: list[Config]) -> None:
    (here / "leaseway.toml").write_text("[server]\nlissen = 1\n[queues.resize]\nlease = 5")
    result = call(serve)
    assert (result.exit_code, result.stdout, served) == (2, "", [])
    assert result.stderr.splitlines() == [
        'leaseway.toml: server.lissen: unknown key; did you mean "listen"?',
        'leaseway.toml: queues.resize.lease: expected a duration such as "90s", "5m", "7d" or "500ms", found 5',
    ]


def test_serve_takes_a_part_of_the_file_and_more_origins(here: Path, served: list[Config]) -> None:
    (here / "leaseway.toml").write_text('[server]\nallowed_origins = ["https://a.example"]\n[queues.a]\n[queues.b]')
    call(serve, "--queues", "b", "--allow-origin", "https://b.example", "--allow-origin", "null")
    (config,) = served
    assert list(config.queues) == ["b"]
    assert config.server.allowed_origins == {"https://a.example", "https://b.example", "null"}
    call(serve, "--config", str(here / "leaseway.toml"))
    assert served[1].server.allowed_origins == {"https://a.example"}


def test_serve_refuses_options_that_cannot_be_understood(served: list[Config]) -> None:
    result = call(serve, "--queues", "dem", "--allow-origin", "*")
    assert (result.exit_code, result.stdout, served) == (2, "", [])
    origin, queue = result.stderr.splitlines()
    assert origin.startswith("command line: --allow-origin: expected an origin as browsers send it")
    assert queue == 'command line: --queues: dem: unknown queue; did you mean "demo"?'
    assert call(serve, "--log", "xml").exit_code == 2


class Terminal(StringIO):
    """Where people read."""

    def isatty(self) -> bool:
        return True


def test_the_log_is_for_people_on_a_terminal_and_for_programs_elsewhere(
    served: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in (StringIO(), Terminal()):
        monkeypatch.setattr(sys, "stderr", stream)
        for words in ([], ["--log", "json"], ["--log", "terminal"]):
            with pytest.raises(SystemExit):
                serve.main(words)
    formats = [config.server.log for config in served]
    assert formats == ["json", "json", "terminal", "terminal", "json", "terminal"]


def test_serve_does_not_show_open_rights_to_the_network(served: list[Config]) -> None:
    result = call(serve, "--listen", "192.0.2.7:8787")
    assert (result.exit_code, served) == (2, [])
    assert "start with --open-to-the-network" in result.stderr


# ── check ──


def test_check_says_what_was_read(here: Path) -> None:
    (here / "schemas").mkdir()
    (here / "schemas" / "item.json").write_text("{}")
    (here / "x.toml").write_text("""
        [server]
        admins = ["zoe", "root"]
        allowed_origins = ["https://b.example", "https://a.example"]
        [queues.resize]
        schemas = "schemas"
        progress_by = "10m"
        access = { post = "open", work = ["van", "box"] }
        match = ["format"]
        [queues.mail]
        visibility = "own"
        max_pending = 5
    """)
    result = call(check, "x.toml")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "x.toml is fine.",
        "Listens on 127.0.0.1 port 8787, data in sqlite:leaseway-data.",
        "Pages that may use it: its own, https://a.example, https://b.example. Administrators: root, zoe.",
        "Queue resize",
        "  rights   post: anyone; fetch: any user; work: box, van; admin: nobody",
        "  schemas  item",
        "  pending  at most 1,000,000",
        "  lease    5m, progress within 10m",
        "  retry    5 attempts, after 30s, 2m, 8m, 32m; 5 losses",
        "  keep     fetched 1h, finished 7d, failed 90d, dead 90d, cancelled 1d, expired 1d",
        "Queue mail",
        "  rights   post: any user; fetch: any user; work: any user; admin: nobody; a user sees what it posted",
        "  schemas  none: anything is taken",
        "  pending  at most 5",
        "  lease    5m",
        "  retry    5 attempts, after 30s, 2m, 8m, 32m; 5 losses",
        "  keep     fetched 1h, finished 7d, failed 90d, dead 90d, cancelled 1d, expired 1d",
    ]


def test_check_tells_programs_the_same(here: Path) -> None:
    (here / "x.toml").write_text("""
        [server]
        admins = ["zoe", "root"]
        [queues.mail]
        visibility = "own"
        progress_by = "10m"
        access = { post = ["alice"], work = ["van", "box"] }
    """)
    told = json.loads(call(check, "x.toml", "--json").stdout)
    (queue,) = told.pop("queues")
    assert told == {
        "file": "x.toml",
        "faults": [],
        "listen": "127.0.0.1:8787",
        "store": "sqlite:leaseway-data",
        "found": None,
        "allowedOrigins": [],
        "admins": ["root", "zoe"],
    }
    assert queue["access"] == {"post": ["alice"], "fetch": "users", "work": ["box", "van"], "admin": []}
    assert (queue["queue"], queue["visibility"], queue["schemas"]) == ("mail", "own", [])
    assert (queue["leaseMs"], queue["progressByMs"], queue["delaysMs"][0]) == (300_000, 600_000, 30_000)
    assert (queue["maxAttempts"], queue["maxLosses"], queue["keepMs"]["dead"]) == (5, 5, 90 * DAY)
    default = json.loads(call(check, "--json").stdout)
    assert (default["file"], [each["progressByMs"] for each in default["queues"]]) == (None, [None])


def test_check_tells_programs_what_is_wrong(here: Path) -> None:
    (here / "x.toml").write_text("[server]\nlissen = 1\n[queues.mail]")
    result = call(check, "x.toml", "--json")
    fault = {"file": "x.toml", "key": "server.lissen", "message": 'unknown key; did you mean "listen"?'}
    assert (result.exit_code, json.loads(result.stdout)) == (2, {"file": "x.toml", "faults": [fault]})
    assert result.stderr.startswith("x.toml: server.lissen: ")


def test_check_without_a_file_tells_the_default() -> None:
    result = call(check)
    assert result.exit_code == 0
    assert result.stdout.startswith("There is no leaseway.toml here. This is the default:\n")


def test_check_starts_and_writes_nothing(here: Path, served: list[Config]) -> None:
    call(check)
    assert (list(here.iterdir()), served) == ([], [])


def test_check_takes_its_file_as_serve_does_or_as_a_word(here: Path) -> None:
    (here / "x.toml").write_text("[queues.resize]")
    (here / "y.toml").write_text("[queues.mail]")
    ways = (["x.toml"], ["--config", "x.toml"], ["x.toml", "--config", "x.toml"], ["./x.toml", "--config", "x.toml"])
    told = {call(check, *words).stdout for words in ways}
    assert len(told) == 1
    assert told.pop().startswith("x.toml is fine.")
    refused = call(check, "x.toml", "--config", "y.toml")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "FILE is x.toml, but --config says y.toml: say one of them" in refused.stderr


def test_check_tells_every_fault(here: Path) -> None:
    (here / "leaseway.toml").write_text('a = 1\n[server]\nlisten = "192.0.2.7:1"\n[queues.x.access]\npost = "open"')
    result = call(check)
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 2)
    assert len(call(check, "--open-to-the-network").stderr.splitlines()) == 1
    assert call(check, "nope.toml").stderr == "nope.toml: cannot be read: No such file or directory\n"


# ── token new ──


def test_a_new_token_is_all_that_goes_to_the_standard_output(here: Path) -> None:
    result = call(token, "new", "alice")
    secret = result.stdout.removesuffix("\n")
    assert (result.exit_code, secret.startswith("lw_"), len(secret)) == (0, True, 46)
    first, second = result.stderr.splitlines()
    assert first == "This is shown only once; just its hash is kept. Put it now where it is needed."
    assert second == f"Its id is {listed()[0]['id']}. User: alice; queues: all; rights: all; ends: never."
    with TokenFile(here / "leaseway-data") as tokens:
        found = tokens.find(secret, 0)
    assert found is not None
    assert found.user == "alice"


def test_a_new_token_for_programs() -> None:
    made, result = new("alice")
    assert result.stderr == ""
    assert list(made) == ["id", "user", "queues", "rights", "createdAt", "expiresAt", "lastUsedAt", "token"]
    assert (made["user"], made["queues"], made["rights"], made["expiresAt"]) == ("alice", None, None, None)


def test_a_token_can_be_narrowed(here: Path) -> None:
    (here / "leaseway.toml").write_text("[queues.resize]\n[queues.mail]\n[queues.other]")
    words = ["--queue", "resize", "--queue", "mail", "--right", "work", "--right", "post", "--expires", "30d"]
    made, _ = new("alice", *words)
    assert (made["queues"], made["rights"]) == (["mail", "resize"], ["post", "work"])
    assert made["expiresAt"] == int(str(made["createdAt"])) + 30 * DAY
    told = call(token, "new", "alice", *words).stderr
    assert "queues: mail, resize; rights: post, work; ends: 2" in told


def test_the_secret_is_shown_once_and_nowhere_else(here: Path) -> None:
    made, _ = new("alice")
    secret = str(made["token"])
    said = [call(token, "list"), call(token, "list", "--json"), call(token, "revoke", secret)]
    said += [call(token, "revoke", str(made["id"])), call(check)]
    kept = b"".join(path.read_bytes() for path in here.rglob("*") if path.is_file())
    told = "".join(result.output for result in said)
    for part in (secret, secret.removeprefix("lw_"), hash_token(secret)):
        assert part not in told
    assert secret.removeprefix("lw_").encode() not in kept


def test_the_tokens_are_where_the_configuration_keeps_them(here: Path) -> None:
    (here / "etc").mkdir()
    (here / "etc" / "x.toml").write_text("[queues.resize]")
    new("alice", "--config", "etc/x.toml")
    new("bob", "--store", "sqlite:elsewhere")
    assert (here / "etc" / "leaseway-data" / "_access.db").exists()
    assert (here / "elsewhere" / "_access.db").exists()
    assert not (here / "leaseway-data").exists()


def test_a_user_without_rights_is_noted(here: Path) -> None:
    config = here / "leaseway.toml"
    config.write_text('[server]\nadmins = ["root"]\n[queues.a.access]\npost = ["alice"]\nfetch = []\nwork = []')
    note = "Note: the configuration gives alcie no right on any queue so far.\n"
    assert new("alcie")[1].stderr == note
    assert new("alice")[1].stderr == ""
    assert new("root")[1].stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["alice", "--expires", "soon"], "expected a duration such as"),
        (["alice", "--expires", "0d"], "expected a duration longer than 0"),
        (["alice", "--expires", ""], "expected a duration such as"),
        (["alice", "--right", "write"], "is not one of 'post', 'fetch', 'work', 'admin'"),
        (["alice", "--queue", "resise"], 'resise: unknown queue; did you mean "resize"? (in leaseway.toml)'),
        (["alice", "--queue", "zzz"], "zzz: unknown queue; known here: mail, resize (in leaseway.toml)"),
        (["alice", "--queue", "A"], "a queue's name has at most 63 of a-z, 0-9, - and _"),
        ([""], "Invalid value for USER: expected 1 to 200 characters, none of them a control"),
        (["a\nb"], "Invalid value for USER: expected 1 to 200 characters, none of them a control"),
        ([], "Missing argument 'USER'"),
    ],
)
def test_what_no_token_is_made_for(words: list[str], message: str, here: Path) -> None:
    (here / "leaseway.toml").write_text("[queues.mail]\n[queues.resize]")
    result = call(token, "new", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert files(here) == ["leaseway.toml"]


def test_without_a_file_any_queue_may_be_named() -> None:
    assert new("alice", "--queue", "resize")[0]["queues"] == ["resize"]


# ── token list, token revoke ──


def test_the_list_for_people(here: Path) -> None:
    made = [new("alice"), new("bob", "--queue", "demo", "--right", "work", "--expires", "1ms")]
    with TokenFile(here / "leaseway-data") as tokens:
        tokens.add("late", None, None, 4_102_444_800_000, 4_000_000_000_000)
        late = tokens.all()[-1]
        at_once(tokens.access.refresh())
        assert tokens.access.by_id(late.id, 4_000_000_000_000) == late, "and so it is used"
    ids = [token["id"] for token, _ in made]
    head, alice, bob, last = call(token, "list").stdout.splitlines()
    assert head == "ID            USER   QUEUES  RIGHTS  ENDS                         LAST USED"
    assert alice == f"{ids[0]}  alice  all     all     never                        never"
    assert bob.startswith(f"{ids[1]}  bob    demo    work    2")
    assert bob.endswith(" UTC (over)  never")
    assert last == f"{late.id}  late   all     all     2100-01-01 00:00 UTC         2096-10-02 07:06 UTC"


def test_the_list_for_programs() -> None:
    made, _ = new("alice", "--right", "admin")
    (known,) = listed()
    assert known == {name: value for name, value in made.items() if name != "token"}


def test_an_empty_list_says_where_it_looked() -> None:
    call(token, "revoke", str(new("alice")[0]["id"]))
    result = call(token, "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "There are no tokens in sqlite:leaseway-data.\n"


def test_a_revoked_token_is_gone() -> None:
    (first, _), (second, _) = new("alice"), new("bob")
    result = call(token, "revoke", str(first["id"]))
    assert (result.exit_code, result.output) == (0, f"Token {first['id']} is revoked.\n")
    other = str(new("alice")[0]["id"])
    assert json.loads(call(token, "revoke", other, "--json").stdout) == {"id": other, "revoked": True}
    assert [known["id"] for known in listed()] == [second["id"]]


READING: Final = [["list"], ["list", "--json"], ["revoke", "nope"]]


@pytest.mark.parametrize("words", READING)
def test_what_only_reads_makes_no_store(words: list[str], here: Path) -> None:
    """A store that is not there is probably a mistake in its name."""
    (here / "empty").mkdir()
    (here / "x.toml").write_text('[server]\nstore = "sqlite:typo"\n[queues.resize]')
    for where, data in (
        (["--store", "sqlite:typo"], "typo"),
        (["--store", "sqlite:a/b/c"], "a/b/c"),
        (["--store", "sqlite:empty"], "empty"),
        (["--config", "x.toml"], "typo"),
        ([], "leaseway-data"),
    ):
        result = call(token, *words, *where)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f"Error: there is no store in {data}: it has no _access.db\n"
        assert files(here) == ["empty", "x.toml"]


def test_an_unknown_id_is_told() -> None:
    new("alice")
    result = call(token, "revoke", "nope")
    assert result.exit_code == 1
    assert result.stderr == ("Error: no token in sqlite:leaseway-data has this id; leaseway token list shows them.\n")


@pytest.mark.parametrize("words", [["new", "alice"], ["list"], ["revoke", "x"]])
def test_what_is_wrong_with_configuration_or_store_is_told(words: list[str], here: Path) -> None:
    (here / "leaseway-data").write_text("")
    result = call(token, *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: leaseway-data/_access.db cannot be used: ")
    (here / "leaseway.toml").write_text("")
    result = call(token, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "leaseway.toml: queues: expected at least one queue, such as [queues.resize]\n"


@pytest.mark.parametrize("command", [serve, check, token, *token.commands.values()])
def test_help_is_there(command: click.Command) -> None:
    result = call(command, "--help")
    assert result.exit_code == 0
    assert command.help
    assert command.help.splitlines()[0] in " ".join(result.stdout.split())
