"""`leaseway-notify`: each command as a person runs it, what it prints, and with which status it ends."""

import asyncio
import json
import re
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from docs.snippets import started
from leaseway_notify.cli import main
from leaseway_notify.clock import now_ms
from leaseway_notify.delivery import Change
from leaseway_notify.demo import show
from leaseway_notify.profile import Profile
from leaseway_notify.queue import QUEUE
from leaseway_notify.recipient_token import read_token
from leaseway_notify.stores.sqlite import open_sqlite
from leaseway_notify.stores.store import SqlStore
from leaseway_server.config import load_config
from support.http_client import http_client
from support.notify_scene import served_queue
from support.notify_service import PATIENCE, SECRET, TOKEN
from support.ports import free_port

EVENT = '{"type": "system", "recipient": "ada", "title": "Hello"}'


@dataclass
class Scene:
    """A folder with a notify.toml, and the store that it names."""

    folder: Path
    store: SqlStore
    url: str

    async def run(self, *words: str, given: str | None = None) -> Result:
        """Runs a command to its end."""
        config = [] if words[0] in ("vapid", "queue") else ["--config", str(self.folder / "notify.toml")]
        return await asyncio.to_thread(CliRunner().invoke, main, [*words, *config], input=given)

    def write(self, queue: str, text: str = "") -> None:
        """Writes notify.toml."""
        port = self.url.rpartition(":")[2]
        (self.folder / "notify.toml").write_text(
            f'[queue]\nurl = "{queue}"\n[service]\nlisten = "127.0.0.1:{port}"\ntoken = "{TOKEN}"\n'
            f'secret = "{SECRET}"\n{text}'
        )


@pytest.fixture
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """Ada has a profile; nobody serves the queue, for which commands of this process do not wait long."""
    monkeypatch.setattr("leaseway_notify.commands.QUEUE_WITHIN", 0.2)
    async with await open_sqlite(tmp_path / "notify.db") as store:
        await store.save_profile(Profile("ada", "ada@example.com"))
        scene = Scene(tmp_path, store, f"http://127.0.0.1:{free_port()}")
        scene.write(f"ws://127.0.0.1:{free_port()}/{QUEUE}")
        yield scene


async def status_of(scene: Scene, delivery: str, status: str) -> None:
    """Waits until a delivery has it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            sending = await scene.store.delivery(delivery)
            if sending is not None and sending.delivery.label == status:
                return
            await asyncio.sleep(0)


async def said(process: asyncio.subprocess.Process, words: bytes) -> None:
    """Reads the log up to a line."""
    assert process.stderr is not None
    async with asyncio.timeout(PATIENCE):
        async for line in process.stderr:
            if words in line:
                return
    raise AssertionError(f"it ended without {words!r}")


async def test_serve_and_worker_deliver_what_send_sends_and_end_on_sigterm(scene: Scene) -> None:
    async with served_queue(scene.folder / "queue") as queue:
        scene.write(f"{queue.ws_url}/{QUEUE}")
        async with (
            started("leaseway-notify", "serve", folder=scene.folder) as serve,
            started("leaseway-notify", "worker", folder=scene.folder) as worker,
        ):
            await said(serve, b"serving http://127.0.0.1:")
            ended = await scene.run("send", "--json", EVENT)
            assert (ended.exit_code, ended.stderr) == (0, "")
            plan = json.loads(ended.stdout)
            await status_of(scene, f"{plan['id']}-in_app", "delivered")
            await status_of(scene, f"{plan['id']}-email", "skipped")  # There is no transport.
            token = (await scene.run("token", "ada")).stdout.strip()
            async with http_client(scene.url) as client:
                inbox = await client.get("/inbox", headers={"Authorization": f"Bearer {token}"})
            assert [one["title"] for one in inbox.json()["entries"]] == ["Hello"]
            for process in (worker, serve):
                process.send_signal(signal.SIGTERM)
                output, _ = await process.communicate()
                assert (process.returncode, output) == (0, b"")


async def test_a_drain_ends_and_delivers_what_waited_in_the_outbox(scene: Scene) -> None:
    scene.write(f"ws://127.0.0.1:{free_port()}/{QUEUE}", '[email]\ntransport = "smtp"\nsender = "bell@app.example"')
    ended = await scene.run("send", "-", given=EVENT)
    assert ended.exit_code == 0
    assert "wait in the outbox" in ended.stderr
    delivery, *lines = ended.stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["in_app", "pending"],
        ["push", "skipped", "(suppressed)"],
        ["email", "pending"],
    ]
    async with served_queue(scene.folder / "queue") as queue:
        scene.write(f"{queue.ws_url}/{QUEUE}")  # Without the transport by which the mail was planned.
        async with started("leaseway-notify", "worker", "--drain", folder=scene.folder) as worker:
            await worker.communicate()
        assert worker.returncode == 0
        await status_of(scene, f"{delivery}-in_app", "delivered")
        shown = await scene.run("attention")
        assert shown.stdout.splitlines()[0] == "failed: 1"
        assert "channel email is not configured" in shown.stdout
        assert shown.stdout.splitlines()[-1] == "dead: 0"


async def dead(scene: Scene, title: str) -> str:
    """A delivery that is dead."""
    plan = json.loads((await scene.run("send", "--json", json.dumps({**json.loads(EVENT), "title": title}))).stdout)
    delivery = f"{plan['id']}-in_app"
    await scene.store.begin(delivery, 1, now_ms())
    await scene.store.change(delivery, 1, Change("dead", error="\x1b[31mred\x1b[0m"), now_ms())
    return delivery


async def test_attention_shows_and_begins_anew(scene: Scene) -> None:
    first, second = [await dead(scene, title) for title in ("one", "two")]
    shown = await scene.run("attention")
    assert "\x1b" not in shown.stdout
    documents = [json.loads(line) for line in (await scene.run("attention", "--json")).stdout.splitlines()]
    assert [one["id"] for one in documents] == [second, first]
    one = await scene.run("attention", "--retry", first)
    assert (one.exit_code, one.stdout.split()) == (0, [first])
    again = await scene.run("attention", "--retry", first, "--retry", second)
    assert (again.exit_code, again.stdout.split()) == (1, [second])
    assert f"neither failed nor dead: {first}" in again.stderr
    third = await dead(scene, "three")
    none = await scene.run("attention", "--retry-all", "failed")
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "Nothing is failed.\n")
    assert (await scene.run("attention", "--retry-all", "dead")).stdout.split() == [third]


async def test_all_are_begun_anew_and_not_only_those_that_are_shown(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leaseway_notify.commands.PORTION", 2)
    monkeypatch.setattr("leaseway_notify.commands.MOST", 3)
    of_old = [await dead(scene, str(number)) for number in range(5)]
    shown = await scene.run("attention", "--json")
    assert [json.loads(line)["id"] for line in shown.stdout.splitlines()] == of_old[:1:-1]
    assert shown.stderr == "These are the newest 3; there may be more.\n"
    begun = await scene.run("attention", "--retry-all", "dead")
    assert (begun.exit_code, sorted(begun.stdout.split())) == (0, sorted(of_old))
    assert (await scene.run("attention")).stderr == ""


async def test_a_key_is_written_once_and_for_its_owner_alone(scene: Scene) -> None:
    path = scene.folder / "vapid.pem"
    ended = await scene.run("vapid", "new", str(path))
    assert (ended.exit_code, len(ended.stdout.strip())) == (0, 87)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    again = await scene.run("vapid", "new", str(path))
    assert (again.exit_code, path.read_bytes()) == (1, before)
    assert "there is a file already" in again.stderr


async def test_a_profile_is_saved(scene: Scene) -> None:
    assert (await scene.run("profile", "bea", "--address", "bea@example.com", "--zone", "Europe/Berlin")).exit_code == 0
    assert await scene.store.profile("bea") == Profile("bea", "bea@example.com", zone="Europe/Berlin")
    assert (await scene.run("profile", "bea", "--name", "Bea")).exit_code == 0
    assert await scene.store.profile("bea") == Profile("bea", "bea@example.com", "Bea", "Europe/Berlin")
    assert (await scene.run("profile", "bea", "--address", "")).exit_code == 0
    assert await scene.store.profile("bea") == Profile("bea", "", "Bea", "Europe/Berlin")


async def test_a_recipient_is_forgotten(scene: Scene) -> None:
    assert (await scene.run("forget", "ada")).exit_code == 0
    assert await scene.store.profile("ada") is None
    again = await scene.run("forget", "ada")
    assert (again.exit_code, again.stderr) == (1, "Error: there is no profile of 'ada'\n")


async def test_the_queues_configuration_is_one_that_the_server_takes(scene: Scene) -> None:
    (scene.folder / "leaseway.toml").write_text((await scene.run("queue")).stdout)
    assert list(load_config(scene.folder / "leaseway.toml").queues) == [QUEUE]


async def test_a_token_is_the_recipients(scene: Scene) -> None:
    before = now_ms() // 1000
    ended = await scene.run("token", "ada", "--minutes", "5")
    after = now_ms() // 1000
    assert (ended.exit_code, ended.stderr) == (0, "")
    who = read_token(ended.stdout.strip(), SECRET, after)
    assert who.id == "ada"
    assert before + 300 <= who.until <= after + 300


@pytest.mark.parametrize(
    ("words", "toml", "status", "told"),
    [
        (["send", "{"], "", 2, "EVENT is no JSON"),
        (["send", "[]"], "", 1, "expected an object"),
        (["profile", "bea", "--zone", "Atlantis"], "", 1, "Atlantis"),
        (["send", EVENT.replace("ada", "nobody")], "", 1, "there is no profile of 'nobody'"),
        (["send", EVENT.replace("system", "unknown")], "", 1, "no policy is registered"),
        (["send", EVENT], '[email]\nport = "x"', 2, "email.port: expected a whole number"),
        (["send", EVENT], "colour = 1", 2, "service.colour: unknown key"),
        (["serve", "--listen", "nowhere"], "", 2, "Error: --listen: expected a host and a port"),
        (["serve", "--listen", ""], "", 2, "Error: --listen: expected a host and a port"),
        (["worker"], '[email]\ntimeout = "10m"', 2, "queue.lease: expected at least"),
        (["token", "ada", "--minutes", "61"], "", 2, "61 is not in the range"),
        (["attention", "--retry-all", "sent"], "", 2, "'sent' is not one of"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_told_in_words_and_a_status(
    scene: Scene, words: list[str], toml: str, status: int, told: str
) -> None:
    scene.write(f"ws://127.0.0.1:{free_port()}/{QUEUE}", toml)
    ended = await asyncio.to_thread(in_process, words, scene.folder)
    assert ended.exit_code == status, ended.output
    assert told in ended.stderr
    assert "Traceback" not in ended.output
    assert await scene.store.attention(1) == []


def in_process(words: list[str], folder: Path) -> Result:
    """Runs a command that does not get as far as to work."""
    return CliRunner().invoke(main, [words[0], "--config", str(folder / "notify.toml"), *words[1:]])


BAD_KEY = '[push]\nkeys = "none.pem"\nsubject = "mailto:a@b.example"'
NO_TEMPLATES = '[email]\ntransport = "smtp"\nsender = "a@b.example"\ntemplates = "mials"'


@pytest.mark.parametrize(
    ("words", "toml", "status", "told"),
    [
        (["serve"], BAD_KEY, 2, "none.pem: the VAPID key cannot be read"),
        (["worker"], NO_TEMPLATES, 2, "email.templates: there is no folder mials"),
        (["worker", "--drain"], "", 3, "no connection within 3 s"),
    ],
)
async def test_what_hinders_a_start_is_told(scene: Scene, words: list[str], toml: str, status: int, told: str) -> None:
    scene.write(f"ws://127.0.0.1:{free_port()}/{QUEUE}", toml)
    async with started("leaseway-notify", *words, folder=scene.folder) as process:
        output, errors = await process.communicate()
    assert (process.returncode, output) == (status, b"")
    assert told in errors.decode()
    assert "Traceback" not in errors.decode()


@pytest.mark.parametrize(("host", "warned"), [("0.0.0.0", True), ("127.0.0.2", False), ("localhost", False)])  # noqa: S104
async def test_plain_http_for_others_than_this_machine_is_warned_of(scene: Scene, host: str, *, warned: bool) -> None:
    words = ["serve", "--listen", f"{host}:{free_port()}"]
    async with started("leaseway-notify", *words, folder=scene.folder) as serve:
        await said(serve, b"serving http://")
        serve.send_signal(signal.SIGTERM)
        _, rest = await serve.communicate()
    assert (b"this is plain HTTP" in rest) is warned


async def test_a_token_of_nobody_is_made_and_said_to_be_one(scene: Scene) -> None:
    ended = await scene.run("token", "ADA")
    assert (ended.exit_code, read_token(ended.stdout.strip(), SECRET, now_ms() / 1000).id) == (0, "ADA")
    assert ended.stderr == "There is no profile of 'ADA' yet, so that nothing comes into this inbox.\n"


async def test_the_service_does_not_start_without_its_secrets(scene: Scene) -> None:
    (scene.folder / "notify.toml").write_text("")
    for words in (["serve"], ["token", "ada"]):
        ended = await asyncio.to_thread(in_process, words, scene.folder)
        assert ended.exit_code == 2
        assert "service.token: is needed" in ended.stderr
        assert "LEASEWAY_NOTIFY_SERVICE_SECRET" in ended.stderr


async def test_without_the_packages_of_the_pipeline_each_command_says_what_to_install(scene: Scene) -> None:
    commands = [["serve"], ["worker"], ["send", EVENT], ["profile", "ada"], ["token", "ada"], ["attention"]]
    commands += [["vapid", "new", "vapid.pem"], ["demo"]]
    script = f"""
import sys
for name in ("aiohttp", "aiosmtplib", "cryptography", "http_ece", "jinja2", "starlette", "uvicorn"):
    sys.modules[name] = None
from click.testing import CliRunner
from leaseway_notify.cli import main
for words in {[*commands, ["queue"]]!r}:
    ended = CliRunner().invoke(main, words)
    print(words[0], ended.exit_code, ended.stderr.strip())
"""
    async with started(sys.executable, "-c", script, folder=scene.folder) as process:
        output, errors = await process.communicate()
    assert errors == b""
    *refused, queue = output.decode().splitlines()
    assert queue.split() == ["queue", "0"]
    for line, words in zip(refused, commands, strict=True):
        assert line.startswith(f"{words[0]} 2 Error: the module "), line
        assert line.endswith("is not installed: pip install 'leaseway[notify]'"), line


@pytest.mark.parametrize("words", [["serve", "--listen", "127.0.0.1:PORT"], ["demo", "--port", "PORT"]])
async def test_an_address_that_is_taken_is_told(scene: Scene, words: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        said = [word.replace("PORT", port) for word in words]
        async with started("leaseway-notify", *said, folder=scene.folder) as process:
            _, errors = await process.communicate()
    assert process.returncode == 3
    assert errors.decode() == f"Error: cannot listen on 127.0.0.1:{port}: Address already in use\n"


async def test_what_the_queue_refuses_is_told_with_the_settings_that_it_came_from(scene: Scene) -> None:
    async with served_queue(scene.folder / "queue") as queue:
        scene.write(f"{queue.ws_url}/another")
        ended = await scene.run("send", EVENT)
    assert ended.exit_code == 3
    assert "queue.url of the settings, the token queue.token" in ended.stderr


@pytest.mark.parametrize(
    "words", [["serve"], ["worker"], ["send", EVENT], ["profile", "ada"], ["token", "ada"], ["attention"]]
)
def test_a_folder_without_settings_stays_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(main, words)
    assert ended.exit_code == 2
    assert ended.stderr == "Error: there is no notify.toml in this folder; --config says where it is\n"
    assert list(tmp_path.iterdir()) == []


def test_settings_of_the_environment_need_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(main, ["profile", "ada"], env={"LEASEWAY_NOTIFY_STORE": "sqlite:here.db"})
    assert (ended.exit_code, ended.output) == (0, "")
    assert (tmp_path / "here.db").exists()


def shown(output: bytes) -> list[str]:
    """What the demo said, without addresses."""
    return [line.partition(":")[0] for line in output.decode().splitlines()]


async def test_the_demo_shows_it_all_and_ends_with_0(tmp_path: Path) -> None:
    async with started("leaseway-notify", "demo", "--once", "--port", "0", folder=tmp_path) as demo:
        async with asyncio.timeout(3 * PATIENCE):
            output, errors = await demo.communicate()
    assert (demo.returncode, errors) == (0, b"")
    assert shown(output) == [
        "The page",
        "Ada's browser has subscribed to pushes.",
        "The bell rings",
        "A push comes, decrypted",
        "A mail arrives",
        "Three mentions become one mail",
        "The mail server fails from now on.",
        "The mail is tried again.",
        "Its tries are spent",
        "It shows under what needs attention. The mail server works again; retry.",
        "Sent",
        "One click on the mail's link, and no more mails of this kind are sent.",
    ]


async def test_the_demo_is_ended_by_the_first_signal_with_all_that_it_started(tmp_path: Path) -> None:
    async with started("leaseway-notify", "demo", "--port", "0", folder=tmp_path) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        async with asyncio.timeout(2 * PATIENCE):
            page = (await demo.stdout.readline()).decode().split()
            assert page, (await demo.stderr.read()).decode()
            await used(page[-1])
            begun = children(demo.pid)
            demo.send_signal(signal.SIGHUP)  # Its terminal is closed,
            await asyncio.to_thread(one_has_ended, demo.pid)
            demo.send_signal(signal.SIGINT)  # and somebody is in a hurry.
            output, errors = await demo.communicate()
    assert (demo.returncode, errors) == (130, b"")
    assert output.decode().splitlines()[-1] == "Ended, with everything that was started."
    assert len(begun) == 3
    assert not any(map(is_there, begun))


def one_has_ended(process: int) -> None:
    """Returns when a child of a process that has three has ended."""
    while len(children(process)) == 3:
        pass


def is_there(process: int) -> bool:
    """Whether it runs, on Linux."""
    return Path(f"/proc/{process}").exists()


def children(process: int) -> list[int]:
    """Those of a process that run, on Linux."""
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


async def test_a_reader_who_spoils_the_show_does_not_end_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the provider is made to fail while the show waits for a mail: here it waits for nothing."""
    monkeypatch.setattr(show, "WITHIN", 0.0)
    lines: asyncio.Queue[str] = asyncio.Queue()
    demo = asyncio.create_task(show.run(once=False, port=0, say=lines.put_nowait))
    async with asyncio.timeout(2 * PATIENCE):
        page = (await lines.get()).split()[-1]
        assert "The show went otherwise, since" in await lines.get()
        await used(page)
        demo.cancel()
        assert await demo == 130


async def used(page: str) -> None:
    """A reader looks at the demo's page, and presses what there is."""
    async with http_client(page) as client:
        shown = await client.get("/")
        assert "<leaseway-bell" in shown.text
        assert "default-src 'self'" in shown.headers["content-security-policy"]
        assert [(await client.get(f"/demo.{ending}")).status_code for ending in ("js", "css", "exe")] == [200, 200, 404]
        inbox = str(re.search(r'inbox="(\S+)/"', shown.text)[1])  # type: ignore[index]
        for origin, allowed in ((inbox, inbox), ("https://evil.example", None)):
            answer = await client.get("/token", headers={"Origin": origin})
            assert answer.headers.get("access-control-allow-origin") == allowed
        assert (await client.post("/provider/fails")).status_code == 204
        pressed = await client.post("/events/system")
        assert pressed.json()["deliveries"][0]["channel"] == "in_app"
        assert (await client.post("/events/none")).status_code == 404
        assert (await client.post("/retry/none")).status_code == 409
        state = (await client.get("/state")).json()
    assert state["failing"] is True
    assert "The report is ready" in [one["title"] for one in state["deliveries"]]
