"""A real server on a real port, spoken to with raw sockets."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fitdoctor.serve.server import Server
from tests.captures.build import Run


@dataclass(frozen=True)
class Said:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    """Speaks to one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.host = f"127.0.0.1:{server.port}"

    def raw(self, request: bytes) -> Said:
        """Send bytes as they are and read until the server closes."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as connection:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = http.client.HTTPResponse(connection, method=request.split(b" ", 1)[0].decode("latin-1"))
            answer.begin()
            return Said(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())

    def ask(self, target: str, method: str = "GET", **headers: str) -> Said:
        """Send a request for a target as it is."""
        lines = {"Host": self.host, "Connection": "close", **{k.replace("_", "-"): v for k, v in headers.items()}}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return self.raw(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode("latin-1"))

    def get(self, path: str = "", **headers: str) -> Said:
        """Ask for a path below the token."""
        return self.ask(f"/{self.server.token}/{path}", **headers)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with two runs of one script; something secret lies beside it."""
    found = tmp_path / "captures"
    found.mkdir()
    for ms in (10, 20):
        run = Run("jax", script="/home/me/train.py", started=1_700_000_000.0 + ms, wall_s=30.0)
        run.fit(steps=200, compute_ms=ms).capture(found)
    (tmp_path / "secret.txt").write_text("secret")
    return found


@pytest.fixture
def client(folder: Path) -> Iterator[Client]:
    with Server(folder) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield Client(server)
        server.shutdown()
        thread.join()
