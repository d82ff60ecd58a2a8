"""PgBouncer in transaction mode, as Debian has it, between servers and a PostgreSQL. Tests are skipped without it."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import pytest

from support.ports import free_port
from support.postgres import Postgres, somebody

PATIENCE: Final = 10.0
_PLACES: Final = f"{os.environ.get('PATH', '')}:/usr/sbin"
_CONFIGURATION: Final = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 10
max_client_conn = 200
logfile = {folder}/log
"""


@contextmanager
def pgbouncer(postgres: Postgres) -> Iterator[int]:
    """Its port, through which each database of this PostgreSQL is reached by its name."""
    program = shutil.which("pgbouncer", path=_PLACES)
    if program is None:
        pytest.skip("pgbouncer is not installed")
    behind = urlsplit(postgres.url)
    with TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        folder.chmod(0o777)
        values = {"host": behind.hostname, "port": behind.port or 5432, "user": behind.username or "postgres"}
        (folder / "ini").write_text(_CONFIGURATION.format(**values, listen=port, folder=folder))
        process = subprocess.Popen(
            [program, "-q", folder / "ini"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **somebody()
        )
        try:
            _wait_for(port, process)
            yield port
        finally:
            process.terminate()
            process.wait(PATIENCE)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    began = time.monotonic()
    while time.monotonic() < began + PATIENCE:
        assert process.poll() is None, "pgbouncer ended"
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise AssertionError("pgbouncer does not listen")
