"""A real S3 server on loopback, in a process of its own, near by and far away."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

BUCKET = "photos"
LATENCY_MS = 20
BYTES_PER_SECOND = 50e6
THIN = 2e6
"""Bytes per second of a line that is near, and thin."""
PICTURES = 160
SIZE = 32
LARGE, LARGE_SIZE = 32, 200
KEYS = {
    "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}  # fmt: skip


@dataclass(frozen=True)
class Store:
    """Where the server is."""

    near: str
    far: str
    thin: str

    @property
    def env(self) -> dict[str, str]:
        """What a child needs to reach the server, far away."""
        return {**KEYS, "AWS_ENDPOINT_URL": self.far}

    def client(self, at: str | None = None) -> Any:
        import boto3

        return boto3.client(
            "s3", endpoint_url=at or self.near, aws_access_key_id="testing", aws_secret_access_key="testing",
            region_name="us-east-1",
        )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait_for(port: int, child: subprocess.Popen[Any]) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        assert child.poll() is None, "the server ended at once"
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError("the server did not start")


@pytest.fixture(scope="session")
def store() -> Iterator[Store]:
    port = _free_port()
    serve = f"from moto.server import main; main(['-H', '127.0.0.1', '-p', '{port}'])"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen([sys.executable, "-c", serve], **quiet, env={**os.environ, **KEYS})
    proxies: list[subprocess.Popen[str]] = []
    try:
        _wait_for(port, server)
        proxies += [_proxy(port, LATENCY_MS, BYTES_PER_SECOND), _proxy(port, 1, THIN)]
        near, far, thin = (f"http://127.0.0.1:{each}" for each in (port, *map(_port_of, proxies)))
        yield Store(near, far, thin)
    finally:
        for child in (*proxies, server):
            child.kill()
            child.wait()


def _proxy(port: int, latency_ms: float, rate: float) -> subprocess.Popen[str]:
    """Put the server behind a line."""
    words = [str(port), "--latency-ms", str(latency_ms), "--bytes-per-second", str(rate)]
    program = [sys.executable, str(Path(__file__).with_name("far_away.py"))]
    return subprocess.Popen([*program, *words], stdout=subprocess.PIPE, text=True)


def _port_of(proxy: subprocess.Popen[str]) -> int:
    assert proxy.stdout is not None
    return int(proxy.stdout.readline())


def picture(number: int, size: int = SIZE) -> bytes:
    """Draw one of two kinds of pictures, as a PNG."""
    import numpy as np
    from PIL import Image

    draw = np.random.default_rng(number)
    pixels = draw.integers(0, 90, (size, size, 3)).astype("uint8")
    pixels[:: 2 + number % 2] += 120
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="session")
def pictures(store: Store) -> dict[str, bytes]:
    """Fill the bucket; returns what lies under each key."""
    client = store.client()
    client.create_bucket(Bucket=BUCKET)
    found = {f"train/{'even' if n % 2 == 0 else 'odd'}/{n:04d}.png": picture(n) for n in range(PICTURES)}
    for key, data in found.items():
        client.put_object(Bucket=BUCKET, Key=key, Body=data)
    return found


@pytest.fixture(scope="session")
def large_pictures(store: Store, pictures: dict[str, bytes]) -> dict[str, bytes]:
    """Add a few large pictures; returns them."""
    client = store.client()
    found = {f"large/{'even' if n % 2 == 0 else 'odd'}/{n:04d}.png": picture(n, LARGE_SIZE) for n in range(LARGE)}
    for key, data in found.items():
        client.put_object(Bucket=BUCKET, Key=key, Body=data)
    return found
