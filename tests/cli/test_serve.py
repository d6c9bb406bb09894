"""`fitdoctor serve` as a process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.captures.build import Run


def started(*arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fitdoctor", "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
        # Whoever runs the tests in the background has it ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_and_stops_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    Run("jax", script="/home/me/train.py").fit(steps=60).capture(tmp_path)
    server = started(str(tmp_path), "--no-open")
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    with urllib.request.urlopen(url, timeout=20) as page:
        assert "train.py" in page.read().decode()
    server.send_signal(number)
    out, err = server.communicate(timeout=30)
    assert server.returncode == 0
    assert out == ""
    assert "stopped" in err
    assert "Traceback" not in err
    assert url.split("/")[3] not in err, "the token is said once"


def test_the_browser_gets_the_address_by_way_of_a_file_of_the_users_own(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    os.mkfifo(tmp_path / "wait")
    lines = ["#!/bin/sh", f'echo "$1" > {seen}', f'cat "${{1#file://}}" >> {seen}', f"echo done > {tmp_path / 'wait'}"]
    browser.write_text("\n".join([*lines, ""]))
    browser.chmod(0o755)
    server = started(str(tmp_path), env={"BROWSER": f"{browser} %s"})
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    (tmp_path / "wait").read_text()
    address, *page = seen.read_text().splitlines()
    assert address.startswith("file://")
    assert url not in address
    assert url in "\n".join(page)
    server.send_signal(signal.SIGINT)
    server.communicate(timeout=30)
    assert not Path(address.removeprefix("file://")).exists()


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = started(str(tmp_path), "--no-open", "--port", str(port))
        _, err = server.communicate(timeout=30)
    assert server.returncode == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in err
    assert "--port" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "expected a folder of captures at nowhere, found nothing"),
        ([__file__], "found a file"),
        (["--port", "70000", "."], "--port needs a number from 0 to 65535"),
        (["--port", "x", "."], "invalid int value"),
    ],
)
def test_what_cannot_be_served_is_said(arguments: list[str], said: str) -> None:
    server = started("--no-open", *arguments)
    _, err = server.communicate(timeout=30)
    assert server.returncode == 2
    assert said in err
