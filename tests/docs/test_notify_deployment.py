"""docs/notify.md, on a server: its steps are done in a folder, after those of docs/deployment.md; its units hold."""

import re
import shlex
import ssl
import subprocess
from pathlib import Path
from typing import Final

import httpx
import pytest

from docs.machine import Machine, machine
from docs.test_deployment import BLOCKS as QUEUE
from docs.test_deployment import DEPLOY, bearer, installed_and_started, need, unit_text
from docs.test_notify_page import BLOCKS
from leaseway_notify.cli import WRONG_USAGE
from leaseway_notify.recipient_token import recipient_token
from leaseway_notify.serving import STOP_SECONDS
from leaseway_notify.settings import Settings
from leaseway_notify.toml import read_toml
from support.notify_service import PATIENCE

STOPS: Final = {"leaseway-notify": STOP_SECONDS + 10, "leaseway-notify-worker": Settings().worst_case / 1000}
"""Seconds that the command of a unit may take to its end."""
EVENT: Final = {"type": "mention", "recipient": "ada"}


@pytest.mark.timeout(3 * PATIENCE)
async def test_the_steps_lead_from_a_served_queue_to_a_bell(tmp_path: Path) -> None:
    need("curl", "openssl")
    async with machine(tmp_path / "machine") as there:
        await installed_and_started(there)
        for step in ("install", "settings", "start", "caddy", "profile"):
            await there.run(BLOCKS[f"deploy-{step}"].text)
        settings = there.path("/etc/leaseway/notify.toml")
        assert settings.stat().st_mode & 0o777 == 0o640
        service = read_toml(settings)["service"]
        trust = ssl.create_default_context(cafile=there.root_certificate)
        async with httpx.AsyncClient(base_url=there.notify_url, verify=trust) as http:
            assert (await http.post("/notify", json={**EVENT, "title": "one"})).status_code == 401
            posted = await http.post("/notify", json={**EVENT, "title": "one"}, headers=bearer(service["token"]))
            assert posted.status_code == 201
            await there.run(delivered_when(there, posted.json()["id"], service["token"]))
            await there.run(without_the_timer(BLOCKS["deploy-drain"].text))
            await http.post("/notify", json={**EVENT, "title": "two"}, headers=bearer(service["token"]))
            drop_in = there.path("/etc/systemd/system/leaseway-notify-worker.service.d/drain.conf").read_text()
            await there.run(f"runuser -u leaseway-notify -- {drained(drop_in)}")
            inbox = await http.get("/inbox", headers=bearer(recipient_token(service["secret"], "ada")))
            assert [entry["title"] for entry in inbox.json()["entries"]] == ["two", "one"]
        await there.run("systemctl stop leaseway-notify leaseway-caddy leaseway")
        logs = [file.read_text() for file in there.path("/var/log").iterdir()]
        assert not [log for log in logs if service["token"] in log or service["secret"] in log]


def delivered_when(there: Machine, notification: str, token: str) -> str:
    """A command that ends once the worker has delivered it to the inbox."""
    log = f"http://127.0.0.1:{there.notify_port}/deliveries?status=delivered&notification={notification}"
    asked = f"curl --silent --fail -H {shlex.quote(f'Authorization: Bearer {token}')} {shlex.quote(log)}"
    return f"until {asked} | grep -q in_app; do :; done"


def without_the_timer(steps: str) -> str:
    """All steps but the last one: there is no systemd whose timer could run."""
    *steps_, last = steps.splitlines()
    assert last == "systemctl enable --now leaseway-notify-worker.timer"
    return "\n".join(steps_)


def drained(drop_in: str) -> str:
    """What the timer runs."""
    first, command = re.findall(r"^ExecStart=(.*)$", drop_in, re.MULTILINE)
    assert first == "", "without it systemd would keep the resident worker too"
    return str(command)


@pytest.mark.parametrize("drain", [False, True], ids=["resident", "drain"])
def test_systemd_finds_nothing_wrong_with_the_worker_of_either_kind(tmp_path: Path, *, drain: bool) -> None:
    need("systemd-analyze")
    unit = tmp_path / "leaseway-notify-worker.service"
    drop_in = (DEPLOY / "leaseway-notify-drain.conf").read_text() if drain else ""
    unit.write_text(with_true(f"{unit_text('leaseway-notify-worker')}\n{drop_in}"))
    timer = tmp_path / "leaseway-notify-worker.timer"
    timer.write_text((DEPLOY / timer.name).read_text())
    for file in (unit, timer):
        verified = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True)
        assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


def with_true(text: str) -> str:
    """The same with a program that is there on the machine of the tests."""
    return re.sub(r"^ExecStart=/opt/\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", STOPS)
def test_the_units_know_how_the_commands_end(name: str) -> None:
    unit = unit_text(name)
    assert f"RestartPreventExitStatus={WRONG_USAGE}\n" in unit
    patience = int(re.findall(r"^TimeoutStopSec=(\d+)s$", unit, re.MULTILINE)[0])
    assert patience > STOPS[name]
    for line in ("KillSignal=SIGTERM", "Restart=on-failure", "NoNewPrivileges=yes", "ProtectSystem=strict"):
        assert f"{line}\n" in unit


def test_the_page_names_each_file() -> None:
    page = "".join(block.text for block in BLOCKS.values())
    for name in ("leaseway-notify.service", "leaseway-notify-worker.service", "leaseway-notify-worker.timer"):
        assert f"deploy/{name}" in page
    assert QUEUE["caddy"].splitlines()[2] == "cp Caddyfile /etc/leaseway/", "whose line is uncommented"
