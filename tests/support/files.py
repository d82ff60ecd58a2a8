"""The JavaScript client and files of the tests, served to a browser with the policy that our pages have."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from support.node import CLIENT, ROOT
from support.peer import peer_server

FOLDERS = {"client": CLIENT / "leaseway_javascript", "files": ROOT / "tests/browser/files"}
POLICY = "default-src 'self'; worker-src 'self' blob:; connect-src 'self' ws://127.0.0.1:* http://127.0.0.1:*"


class _Handler(SimpleHTTPRequestHandler):
    """`/client/…` and `/files/…`; every other path is an empty page."""

    def do_GET(self) -> None:
        """Answers with the file, or with the empty page."""
        _, folder, *rest = urlsplit(self.path).path.split("/")
        path = FOLDERS[folder] / "/".join(rest) if folder in FOLDERS else None
        body = path.read_bytes() if path else b"<!doctype html><title>page</title>"
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript" if path else "text/html")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@contextmanager
def served_files() -> Iterator[str]:
    """The address of a server of these files, without a slash at its end."""
    with peer_server(_Handler) as port:
        yield f"http://127.0.0.1:{port}"
