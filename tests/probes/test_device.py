"""The GPU probe, through the real binding, against a stand-in for the driver's library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.probes import device


def ask(code: str, driver: Path, mode: str = "") -> Any:
    environment = {**os.environ, "FAKE_NVML": mode, "LD_LIBRARY_PATH": str(driver)}
    script = f"import json; from fitdoctor.probes.device import *\n{code}"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_the_driver_offers(driver: Path) -> None:
    first, second = ask("print(json.dumps(gpus()))", driver)
    assert first == {
        "index": 0,
        "name": "Fake A10",
        "driver": "550.54.15",
        "memory_total": 24 << 30,
        "cuda_driver": "12.4",
        "compute_capability": "8.6",
        "mig": True,
    }
    assert second["compute_capability"] == "7.5"
    assert "mig" not in second


def test_samples_and_what_a_gpu_lacks(driver: Path) -> None:
    code = """
s = DeviceSampler(); a = s.sample(); b = s.sample(); s.close()
print(json.dumps([a, b, [[g.what, g.reason] for g in s.gaps], s.why, s.sample()]))
"""
    (first, second), again, gaps, why, closed = ask(code, driver)
    assert first == {
        "index": 0,
        "utilisation": 0.37,
        "memory_utilisation": 0.12,
        "memory_used": 6 << 30,
        "memory_total": 24 << 30,
        "sm_mhz": 900,
        "sm_max_mhz": 1800,
        "celsius": 83,
        "watts": 149.5,
        "watts_limit": 150.0,
        "throttle": ["power cap", "heat (hardware)"],
    }
    assert set(first) - set(second) == {"watts"}
    assert again == [first, second]
    assert gaps == [["GPU 1: power", "the driver answered: Not Supported"]]
    assert why == ""
    assert closed == []


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("no driver", device.NO_DRIVER),
        ("no permission", device.NO_PERMISSION),
        ("no device", device.NO_DEVICE),
    ],
)
def test_why_there_is_none(driver: Path, mode: str, why: str) -> None:
    code = "s = DeviceSampler(); print(json.dumps([look(), s.why, s.sample()]))"
    assert ask(code, driver, mode) == [[[], why], why, []]


def test_no_library(tmp_path: Path) -> None:
    # A file that is no library hides one that may be installed.
    (tmp_path / "libnvidia-ml.so.1").write_text("")
    code = "print(json.dumps([look(), DeviceSampler().why]))"
    assert ask(code, tmp_path) == [[[], device.NO_LIBRARY], device.NO_LIBRARY]


def test_no_binding(driver: Path) -> None:
    code = "import sys; sys.modules['pynvml'] = None; print(json.dumps([look(), DeviceSampler().sample()]))"
    (found, why), sample = ask(code, driver)
    assert found == sample == []
    assert "nvidia-ml-py" in why


def test_cards_are_counted_without_a_driver(tmp_path: Path) -> None:
    for name, vendor, kind in [
        ("0000:00:01.0", "0x10de", "0x030200"),
        ("0000:00:02.0", "0x10de", "0x040300"),  # its sound device
        ("0000:00:03.0", "0x8086", "0x030000"),
    ]:
        folder = tmp_path / "sys/bus/pci/devices" / name
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(vendor + "\n")
        (folder / "class").write_text(kind + "\n")
    assert device.nvidia_cards(tmp_path) == 1
    assert device.nvidia_cards(tmp_path / "elsewhere") is None
