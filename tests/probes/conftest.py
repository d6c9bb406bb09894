"""A stand-in for the library of NVIDIA's driver, built for the tests and loaded by the real binding."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if COMPILER is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler on Linux to build the stand-in for libnvidia-ml.so.1")
    folder = tmp_path_factory.mktemp("driver")
    source = Path(__file__).with_name("nvml.c")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", target, source], check=True)
    return folder
