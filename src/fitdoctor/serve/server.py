"""The HTTP server: this machine alone, one secret in every address, only reading.

Four locks, each tested with raw sockets.  It listens on 127.0.0.1.  The first part of every path is a random token,
compared in constant time; it stands in the path and not in a cookie, because a cookie of 127.0.0.1 goes to every other
server of that machine too.  `Host` must name this very server, so that no foreign name that leads here (DNS rebinding)
is answered.  And nothing of an address is ever used as a path of a file.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import sys
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fitdoctor.errors import UsageError
from fitdoctor.serve import pages
from fitdoctor.serve.answers import HTML, Answer, Answers, encoded

LOOPBACK = "127.0.0.1"
SECONDS = 15
"""A client that says nothing for so long is let go."""
COMMON = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
CLOSED_POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Server(ThreadingHTTPServer):
    """Serves one folder of captures to the user of this machine."""

    daemon_threads = True
    allow_reuse_address = os.name == "posix"

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(32)
        self.answers = Answers(folder, self.token)
        try:
            super().__init__((LOOPBACK, port), Handler)
        except OverflowError as error:
            raise UsageError(f"--port needs a number from 0 to 65535, got {port}") from error
        except OSError as error:
            raise UsageError(
                f"port {port} of {LOOPBACK} cannot be used: {error.strerror or error}",
                do="name another one with --port, or leave it out to get a free one",
            ) from error

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """The address to open, with the token."""
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say in one line what went wrong; a client that went away is no error."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"fitdoctor: a request failed: {type(error).__name__}: {error}", file=sys.stderr)


class Handler(BaseHTTPRequestHandler):
    """Answers one client."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = SECONDS

    def do_GET(self) -> None:
        """Answer, unless one of the locks is shut."""
        self._send(self._checked())

    do_HEAD = do_GET  # noqa: N815 - the names that http.server looks for

    def _refuse_method(self) -> None:
        self.close_connection = True
        self._send(self._refusal(405, "Only reading is possible here.", {"Allow": "GET, HEAD"}))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method  # noqa: N815

    def _checked(self) -> Answer:
        if self.headers.get("Content-Length", "0") != "0" or self.headers.get("Transfer-Encoding"):
            self.close_connection = True  # a body nobody asked for is not read as the next request
        if self.headers.get_all("Host", []) not in ([f"{name}:{self.server.port}"] for name in (LOOPBACK, "localhost")):
            return self._refusal(421, "This server answers only to its own name.")
        path, _, query = self.path.partition("?")
        first, slash, rest = path.removeprefix("/").partition("/")
        if not path.startswith("/") or not hmac.compare_digest(
            first.encode("utf-8", "replace"), self.server.token.encode()
        ):
            return self._refusal(403, "Open the whole address that `fitdoctor serve` printed: it ends in a long token.")
        if not slash:
            return Answer(308, HTML, b"", headers={"Location": f"/{self.server.token}/"})
        try:
            return self.server.answers.to(rest, query)
        except Exception as error:
            print(f"fitdoctor: a page failed: {type(error).__name__}: {error}", file=sys.stderr)
            if os.environ.get("FITDOCTOR_DEBUG"):
                raise
            return self._refusal(500, "This is a bug in fitdoctor; the terminal says more.")

    def _refusal(self, status: int, text: str, headers: dict[str, str] | None = None) -> Answer:
        body = encoded(pages.message(None, str(status), text))
        return Answer(status, HTML, body, policy="", headers=headers or {})

    def _send(self, answer: Answer) -> None:
        whole = answer.body if isinstance(answer.body, bytes) else None
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Security-Policy", "; ".join(filter(None, (CLOSED_POLICY, answer.policy))))
        for name, value in {**COMMON, **answer.headers}.items():
            self.send_header(name, value)
        if whole is not None:
            self.send_header("Content-Length", str(len(whole)))
        else:
            self.close_connection = True  # its length is not known before its end
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self._write([whole] if whole is not None else answer.body)  # type: ignore[arg-type]

    def _write(self, pieces: Iterable[bytes]) -> None:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                self.wfile.write(piece)

    def version_string(self) -> str:
        """Say who answers, and nothing of the machine."""
        return "fitdoctor"

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is no proper request, without an echo of it."""
        self.close_connection = True
        self.request_version = self.protocol_version  # whatever it claimed: the answer has a head
        self._send(self._refusal(code, "That was no proper request."))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server uses
        """Keep quiet: addresses hold the token."""
