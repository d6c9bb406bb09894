"""Objects fetched over HTTP: counted and timed while a training runs, and otherwise left alone."""

from __future__ import annotations

import http.client
import http.server
import json
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fitdoctor.probes.fetches import FetchProbe
from fitdoctor.probes.install import ImportWatch, Patches
from fitdoctor.probes.recorder import Recorder
from fitdoctor.probes.steps import Tracker
from tests.probes.test_reads import Sink

ORIGINAL = http.client.HTTPConnection.getresponse


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b"x" * int(self.path[1:])
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


class Watched:
    def __init__(self) -> None:
        self.sink = Sink()
        self.recorder = Recorder(self.sink, 0)
        self.tracker = Tracker(self.recorder)
        self.patches = Patches(self.recorder)
        FetchProbe(self.tracker, self.patches).attach(ImportWatch(self.recorder))

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *error: object) -> None:
        self.patches.undo()
        assert http.client.HTTPConnection.getresponse is ORIGINAL

    def info(self) -> dict[str, Any]:
        self.recorder.flush()
        return dict(json.loads(self.sink.rows["calls"][-1][-1]))


def get(port: int, size: int) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", f"/{size}")
        return connection.getresponse().read()
    finally:
        connection.close()


def test_objects_are_counted_while_a_training_runs(port: int) -> None:
    with Watched() as watched:
        assert get(port, 5) == b"xxxxx"
        watched.tracker.begin_loop(None, "loop", compiled=True)
        assert [len(get(port, 1000)) for _ in range(4)] == [1000] * 4
        found = watched.info()["fetches"]
    assert (found["count"], found["bytes"]) == (4, 4000)
    assert 0 < found["any_ns"] == pytest.approx(found["wait_ns"], rel=0.5)
    assert found["site"][0] == __file__


def test_side_by_side_less_time_passes_than_is_waited(port: int) -> None:
    with Watched() as watched:
        watched.tracker.begin_loop(None, "loop", compiled=True)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: get(port, 10), range(64)))
        found = watched.info()["fetches"]
    assert found["count"] == 64
    assert found["any_ns"] <= found["wait_ns"]


def test_errors_pass_without_our_frames(port: int) -> None:
    with Watched() as watched:
        watched.tracker.begin_loop(None, "loop", compiled=True)
        connection = http.client.HTTPConnection("127.0.0.1", port)
        with pytest.raises(http.client.ResponseNotReady) as caught:
            connection.getresponse()
        connection.close()
    names = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1].endswith("client.py")


def test_nothing_fetched_is_nothing_said() -> None:
    with Watched() as watched:
        watched.tracker.begin_loop(None, "loop", compiled=True)
        assert "fetches" not in watched.info()
