"""docs/deployment.md is done step by step in a folder; the units and the Containerfile are what it says of them."""

import asyncio
import json
import re
import shlex
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Final

import httpx
import pytest

from docs.machine import ROOT, Machine, machine
from docs.snippets import snippets, started
from leaseway_server.__main__ import GONE, STOP_SECONDS
from leaseway_server.commands import WRONG_USAGE
from leaseway_server.web.protocol import CLOSE_SECONDS
from leaseway_server.web.site import DRAIN_SECONDS
from support.postgres import OwnPostgres, Postgres

PAGE: Final = (ROOT / "docs/deployment.md").read_text(encoding="utf-8")
BLOCKS: Final = {snippet.marker: snippet.text for snippet in snippets(PAGE)}
STEPS: Final = [
    "install", "folder", "toml", "check", "start", "tokens", "caddy", "reached", "reload", "reload-caddy",
    "backup-running", "backup", "restore", "upgrade",
]  # fmt: skip
"""In the page's order. What follows is not a step of this machine."""
SEVERAL: Final = [
    "several-database", "several-toml", "several-env", "several-check", "several-unit", "several-caddy",
    "several-backup", "several-upgrade",
]  # fmt: skip
ITEM: Final = {"image": "data:image/png;base64,iVBORw0KGgo=", "width": 64, "format": "png"}
DEPLOY: Final = ROOT / "deploy"
EXAMPLE: Final = ROOT / "schemas/leaseway_schemas/examples/resize"
UNITS: Final = {
    "leaseway": 1.5,
    "leaseway-database": 1.8,
    "leaseway-caddy": 2.0,
    "leaseway-notify": 1.5,
    "leaseway-notify-worker": 1.5,
}
"""The exposure that systemd may find at most, of 10. A unit without hardening has 9.6."""


# ── The page ──


def test_the_blocks_are_the_steps() -> None:
    assert list(BLOCKS) == [*STEPS, *SEVERAL, "container"]


@pytest.mark.timeout(120)
async def test_the_steps_lead_from_an_empty_machine_to_a_served_queue(tmp_path: Path) -> None:
    need("curl", "tail")
    async with machine(tmp_path / "machine") as there:
        alice, box, root = await installed_and_started(there)
        trust = ssl.create_default_context(cafile=there.root_certificate)
        async with httpx.AsyncClient(base_url=there.site_url, verify=trust) as http:
            posted = await http.post("/resize/items", json={"item": ITEM}, headers=bearer(alice))
            assert posted.status_code == 201
            assert (await http.get("/resize/items", headers=bearer(root))).status_code == 200, "as an administrator"
            lease = (await http.post("/resize/claim", json={}, headers=bearer(box))).json()
            change(there.path("/etc/leaseway/leaseway.toml"), '"schemas/resize"', '"schemas/resize"\nlease = "6m"')
            await there.run(BLOCKS["reload"])
            await there.logged("leaseway", "queues.resize.lease")
            await there.run(BLOCKS["reload-caddy"])
            await there.logged("leaseway-caddy", "successfully reloaded")
            await there.run(BLOCKS["backup-running"])
            await there.run(BLOCKS["backup"])
            await ready(there)
            assert await report(http, box, lease) == {"accepted": True, "status": "finished"}
            await there.run(BLOCKS["restore"])
            await ready(there)
            assert await progress(http, box, lease) == {"accepted": True, "status": "processing"}
            await there.run(BLOCKS["upgrade"])
            await ready(there)
            assert await report(http, box, lease) == {"accepted": True, "status": "finished"}
        (backup,) = there.path("/var/backups").glob("leaseway-*")
        assert {file.name for file in backup.iterdir()} >= {"_access.db", "resize.db"}
        (while_running,) = there.path("/var/backups/leaseway").iterdir()
        assert {file.name for file in while_running.iterdir()} == {"_access.db", "resize.db"}
        await there.run("systemctl stop leaseway-caddy leaseway")
        logs = [file.read_text() for file in there.path("/var/log").iterdir()]
        assert not [log for log in logs if alice in log or box in log or root in log]


async def installed_and_started(there: Machine) -> tuple[str, str, str]:
    """Does the steps until the site is reached. Gives the three tokens."""
    await there.run(BLOCKS["install"])
    await there.run(BLOCKS["folder"])
    there.path("/etc/leaseway/leaseway.toml").write_text(there.here(BLOCKS["toml"]))
    assert f"{there.path('/etc/leaseway/leaseway.toml')} is fine." in await there.run(BLOCKS["check"])
    assert '{"status":"ready"}' in await there.run(BLOCKS["start"])
    alice, box, root = (await there.run(BLOCKS["tokens"])).split()
    await there.run(BLOCKS["caddy"])
    assert '{"status":"ready"}' in await there.run(BLOCKS["reached"])
    return alice, box, root


def change(file: Path, old: str, new: str) -> None:
    """Puts another text into a file."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


async def ready(there: Machine) -> None:
    """Waits until the server serves again, and Caddy knows it."""
    await there.run(f"curl --fail --silent --retry 20 --retry-delay 1 {there.site_url}/_ready")


async def report(http: httpx.AsyncClient, token: str, lease: dict[str, object]) -> dict[str, object]:
    """The worker's result, and what is said to it."""
    picture = {"image": ITEM["image"], "width": 64, "height": 64, "luminance": 0.5, "palette": ["#000000"]}
    return await tell(http, token, "result", lease, picture)


async def progress(http: httpx.AsyncClient, token: str, lease: dict[str, object]) -> dict[str, object]:
    """The worker's progress, and what is said to it."""
    return await tell(http, token, "progress", lease, {"stage": "scale", "percent": 50})


async def tell(
    http: httpx.AsyncClient, token: str, verb: str, lease: dict[str, object], value: object
) -> dict[str, object]:
    """A report under this lease."""
    body = {"id": lease["id"], "attempts": lease["attempts"], "value": value}
    answer = await http.post(f"/resize/{verb}", json=body, headers=bearer(token))
    assert answer.status_code == 200, answer.text
    return {name: answer.json()[name] for name in ("accepted", "status")}


def bearer(token: str) -> dict[str, str]:
    """The header that carries a token."""
    return {"Authorization": f"Bearer {token}"}


# ── The units ──


def unit_text(name: str) -> str:
    """A unit; that for a database is the server's own with what is added to it."""
    if name == "leaseway-database":
        return f"{unit_text('leaseway')}\n{(DEPLOY / f'{name}.conf').read_text()}"
    return (DEPLOY / f"{name}.service").read_text()


@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_nothing_wrong_with_a_unit(name: str, tmp_path: Path) -> None:
    need("systemd-analyze")
    unit = tmp_path / f"{name}.service"
    text = unit_text(name)
    (program,) = re.findall(r"^ExecStart=(/opt/leaseway/bin/\S+)", text, re.MULTILINE)
    unit.write_text(text.replace(program, "/bin/true"))  # It is not installed there on the machine of the tests.
    verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_exposes_little(name: str, tmp_path: Path) -> None:
    need("systemd-analyze")
    unit = tmp_path / f"{name}.service"
    unit.write_text(unit_text(name))
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={UNITS[name] * 10:.0f}"]
    found = subprocess.run([*command, unit], capture_output=True, text=True)
    assert "Overall exposure level" in found.stdout, found.stderr
    assert found.returncode == 0, found.stdout


def test_the_unit_knows_what_the_server_does() -> None:
    unit = (DEPLOY / "leaseway.service").read_text()
    assert f"RestartPreventExitStatus={WRONG_USAGE}\n" in unit
    assert WRONG_USAGE == GONE, "the other one after which only a person starts it again"
    assert "TimeoutStopSec=20s\n" in unit
    assert DRAIN_SECONDS + STOP_SECONDS + CLOSE_SECONDS < 20
    for line in ("KillSignal=SIGTERM", "Restart=on-failure", "NoNewPrivileges=yes", "ProtectSystem=strict"):
        assert f"{line}\n" in unit


def need(*programs: str) -> None:
    """Skips the test where one of them is missing."""
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} on this machine")


# ── Several machines ──


async def test_the_steps_lead_to_a_server_on_a_database(tmp_path: Path, postgres: Postgres) -> None:
    """The database is made as the page says; check finds it with the page's files, and so does a token."""
    if not isinstance(postgres, OwnPostgres):
        pytest.skip("a user is only made in the tests' own PostgreSQL")
    postgres.require_password("leaseway")
    psql = postgres._binaries / "psql"
    async with machine(tmp_path / "machine") as there:
        (there.folder / "bin/psql").write_text(f'#!/bin/sh\nexec {psql} "{postgres.url}" "$@"\n')
        (there.folder / "bin/psql").chmod(0o755)
        (there.folder / "users").write_text("postgres\n")
        await there.run(BLOCKS["several-database"])
        try:
            (there.path("/opt/leaseway/bin")).mkdir(parents=True)
            program = there.path("/opt/leaseway/bin/leaseway")
            program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from leaseway.cli import main; main()" "$@"\n')
            program.chmod(0o755)
            await there.run(BLOCKS["folder"])
            place = f"leaseway@127.0.0.1:{postgres.port}/leaseway"
            toml = there.here(BLOCKS["several-toml"]).replace("leaseway@10.0.0.5/leaseway?sslmode=require", place)
            there.path("/etc/leaseway/leaseway.toml").write_text(toml)
            shutil.copytree(EXAMPLE, there.path("/etc/leaseway/schemas/resize"))
            await there.run(BLOCKS["several-env"])
            assert there.path("/etc/leaseway/leaseway.env").stat().st_mode & 0o777 == 0o600
            said = await there.run(BLOCKS["several-check"])
            assert "Listens on 10.0.0.11 port 8787" in said
            assert f"The database postgresql://{place} is PostgreSQL" in said
            assert "with no store of Leaseway yet" in said
            made = BLOCKS["several-check"].replace("check /etc", "token new alice --config /etc")
            assert (await there.run(made)).startswith("lw_")
            assert "Servers at work: 0." in await there.run(BLOCKS["several-check"])
        finally:
            await postgres.run("DROP DATABASE leaseway WITH (FORCE)", "DROP ROLE leaseway")


async def test_the_files_for_several_are_put_where_the_units_look(tmp_path: Path) -> None:
    async with machine(tmp_path / "machine") as there:
        there.path("/etc/leaseway").mkdir()
        copies = [line for line in BLOCKS["several-unit"].splitlines() if not line.startswith("systemctl")]
        await there.run("\n".join(copies))
        await there.run(BLOCKS["several-caddy"])
        assert there.path("/etc/systemd/system/leaseway.service.d/database.conf").exists()
        assert "{$LEASEWAY_UPSTREAMS:" in there.path("/etc/leaseway/Caddyfile").read_text()
        given = dict(line.split("=", 1) for line in there.path("/etc/leaseway/caddy.env").read_text().splitlines())
        assert given["LEASEWAY_UPSTREAMS"] == '"10.0.0.11:8787 10.0.0.12:8787"'
        unit = (DEPLOY / "leaseway-caddy.service").read_text()
        assert "EnvironmentFile=/etc/leaseway/caddy.env\n" in unit
        assert "--config /etc/leaseway/Caddyfile" in unit


def test_a_backup_and_an_upgrade_use_options_that_there_are(postgres: Postgres) -> None:
    if not isinstance(postgres, OwnPostgres):
        pytest.skip("the programs are those of the tests' own PostgreSQL")
    for name in ("pg_dump", "pg_restore"):
        known = subprocess.run([postgres._binaries / name, "--help"], capture_output=True, text=True, check=True).stdout
        (line,) = re.findall(rf"{name} (--[^`\n]*)", PAGE)
        for option in re.findall("--[a-z-]+", line):
            assert option in known


def test_each_metric_that_is_watched_is_there() -> None:
    documented = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    watched = {name.removesuffix("_bucket") for name in re.findall(r"(?<!/)leaseway_[a-z_]+", PAGE)}
    assert len(watched) > 4
    assert not [name for name in watched if f"`{name}`" not in documented]


# ── The container ──


async def test_the_steps_of_the_container_file_in_a_plain_folder(tmp_path: Path) -> None:
    """No container engine is asked: RUN and COPY are done in a folder, CMD and HEALTHCHECK run with ENV."""
    async with machine(tmp_path / "machine") as there:
        environment, check, command = await built(there)
        address = {"LEASEWAY_LISTEN": f"127.0.0.1:{there.port}", "PATH": "/usr/bin:/bin"}
        assert await asyncio.to_thread(status, check, environment | address, there.folder) != 0
        configure(there)
        async with started(*command, folder=there.path("/var/lib/leaseway"), **(environment | address)) as server:
            assert server.stderr is not None
            async for line in server.stderr:
                if b"server.started" in line:
                    break
            assert await asyncio.to_thread(status, check, environment | address, there.folder) == 0
            server.terminate()
            assert await server.wait() == 0
        assert there.path("/var/lib/leaseway/resize.db").exists()


def test_what_the_container_file_copies_is_sent_to_the_engine() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    sent = {line[1:] for line in lines if line.startswith("!")}
    copied = [rest.split()[:-1] for kind, rest in instructions() if kind == "COPY" and not rest.startswith("--from")]
    assert "*" in lines
    assert sent == {source for sources in copied for source in sources}


def test_a_container_is_not_open_to_everyone(tmp_path: Path) -> None:
    """The address that it listens on is refused where the configuration opens a right."""
    file = tmp_path / "leaseway.toml"
    file.write_text('[queues.demo]\naccess = { post = "open" }\n')
    (listen,) = [value for kind, value in instructions() if kind == "ENV" and value.startswith("LEASEWAY_LISTEN=")]
    command = [sys.executable, "-m", "leaseway_server", "--config", str(file), "--listen", listen.partition("=")[2]]
    refused = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert refused.returncode == WRONG_USAGE
    assert "--open-to-the-network" in refused.stderr


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions and what follows each."""
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    return [(kind, rest) for kind, _, rest in (line.partition(" ") for line in lines if line and line[0] != "#")]


async def built(there: Machine) -> tuple[dict[str, str], list[str], list[str]]:
    """Does the steps. Gives the variables, and the commands of HEALTHCHECK and CMD."""
    environment, check, command = {"PYTHONPATH": there.environment["PYTHONPATH"]}, [], []
    work = there.folder
    for kind, rest in instructions():
        match kind:
            case "WORKDIR":
                work = there.path(rest)
                work.mkdir(parents=True, exist_ok=True)
            case "COPY" if not rest.startswith("--from=build "):
                *sources, target = rest.split()
                await there.run(f"cp -r {' '.join(sources)} {shlex.quote(str(work / target))}")
            case "COPY":
                _, source, target = rest.split()
                assert source == target
            case "RUN":
                await there.run(rest.replace("chown 10001:10001", "chmod 0700"), work)
            case "ENV":
                name, _, value = there.here(rest).partition("=")
                environment[name] = value
            case "USER":
                assert rest == "10001:10001"
            case "HEALTHCHECK":
                check = json.loads(there.here(rest.partition("CMD ")[2]))
            case "CMD":
                command = json.loads(there.here(rest))
            case _:
                assert kind in ("FROM", "VOLUME", "EXPOSE")
    return environment, check, command


def configure(there: Machine) -> None:
    """Puts the page's configuration where the container has it."""
    there.path("/etc/leaseway/leaseway.toml").write_text(there.here(BLOCKS["toml"]))
    shutil.copytree(EXAMPLE, there.path("/etc/leaseway/schemas/resize"))


def status(command: list[str], environment: dict[str, str], folder: Path) -> int:
    """The exit status of a command that is given these variables only."""
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True).returncode
