"""NVIDIA GPUs as their driver sees them, through NVML: no framework, no CUDA context."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fitdoctor.model import Gap

NO_LIBRARY = "library not found"
NO_DRIVER = "driver not loaded"
NO_DEVICE = "no device"
NO_PERMISSION = "permission"

_REASONS = {
    0x001: "idle",
    0x002: "clocks set by user",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "heat (software)",
    0x040: "heat (hardware)",
    0x080: "power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability",
}


def gpus() -> list[dict[str, Any]]:
    """List the NVIDIA GPUs the driver offers; `look` also says why there are none."""
    return look()[0]


def look() -> tuple[list[dict[str, Any]], str]:
    """List the GPUs, and why the list is empty ("" where it is not)."""
    try:
        with _nvml() as nvml:
            driver = nvml.nvmlSystemGetDriverVersion()
            found = [_describe(nvml, index, driver) for index in range(nvml.nvmlDeviceGetCount())]
    except Exception as error:
        return [], _why(error)
    return found, "" if found else NO_DEVICE


def nvidia_cards(root: Path = Path("/")) -> int | None:
    """Count NVIDIA display adapters on the PCI bus: hardware that is there whether or not a driver is loaded.

    None where the bus cannot be seen.
    """
    bus = root / "sys/bus/pci/devices"
    try:
        folders = list(bus.iterdir())
    except OSError:
        return None
    count = 0
    for folder in folders:
        try:
            vendor, kind = (folder / "vendor").read_text().strip(), (folder / "class").read_text().strip()
        except OSError:
            continue
        count += vendor == "0x10de" and kind.startswith("0x03")
    return count


class DeviceSampler:
    """Looks at every GPU now and then.  Never raises; what a GPU does not offer is noted in `gaps`.

    NVML answers for the whole device, so a sampler may live in any process of the machine.
    PCIe throughput is not read: NVML measures it by waiting 20 ms inside each call.
    """

    def __init__(self) -> None:
        self.why = ""
        self.gaps: list[Gap] = []
        self._nvml: Any = None
        self._readings: list[tuple[int, dict[str, Callable[[], dict[str, Any]]]]] = []
        try:
            self._nvml = nvml = _start()
            for index in range(nvml.nvmlDeviceGetCount()):
                self._readings.append((index, _readings(nvml, nvml.nvmlDeviceGetHandleByIndex(index))))
            if not self._readings:
                self.why = NO_DEVICE
        except Exception as error:
            self.why = _why(error)
            self._readings = []

    def sample(self) -> list[dict[str, Any]]:
        """Return one record per GPU, empty where there is none."""
        return [self._sample_one(index, readings) for index, readings in self._readings]

    def close(self) -> None:
        """Let go of the driver."""
        self._readings = []
        if self._nvml is not None:
            with contextlib.suppress(Exception):
                self._nvml.nvmlShutdown()
            self._nvml = None

    def _sample_one(self, index: int, readings: dict[str, Callable[[], dict[str, Any]]]) -> dict[str, Any]:
        values: dict[str, Any] = {"index": index}
        for name, reading in list(readings.items()):
            try:
                values.update(reading())
            except Exception as error:
                del readings[name]
                self.gaps.append(
                    Gap(
                        f"GPU {index}: {name}",
                        f"the driver answered: {error}",
                        "none: this GPU or driver lacks it",
                    )
                )
        return values


def _readings(nvml: Any, gpu: Any) -> dict[str, Callable[[], dict[str, Any]]]:
    def used() -> dict[str, Any]:
        rates = nvml.nvmlDeviceGetUtilizationRates(gpu)
        return {"utilisation": rates.gpu / 100, "memory_utilisation": rates.memory / 100}

    def memory() -> dict[str, Any]:
        info = nvml.nvmlDeviceGetMemoryInfo(gpu)
        return {"memory_used": info.used, "memory_total": info.total}

    def clocks() -> dict[str, Any]:
        return {
            "sm_mhz": nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
            "sm_max_mhz": nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM),
        }

    def temperature() -> dict[str, Any]:
        return {"celsius": nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)}

    def power() -> dict[str, Any]:
        return {"watts": nvml.nvmlDeviceGetPowerUsage(gpu) / 1000}

    def power_limit() -> dict[str, Any]:
        return {"watts_limit": nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000}

    def throttling() -> dict[str, Any]:
        return {"throttle": throttle_reasons(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))}

    return {
        "utilisation": used,
        "memory": memory,
        "clocks": clocks,
        "temperature": temperature,
        "power": power,
        "power limit": power_limit,
        "throttle reasons": throttling,
    }


def throttle_reasons(bits: int) -> list[str]:
    """Name what holds the clocks down.

    >>> throttle_reasons(0x44)
    ['power cap', 'heat (hardware)']
    """
    return [name for bit, name in _REASONS.items() if bits & bit]


class _NoLibrary(Exception):  # noqa: N818 - an answer, not an error
    pass


def _start() -> Any:
    # Asked first because most machines say no here, and importing the binding is slow.
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        raise _NoLibrary from None
    import pynvml

    pynvml.nvmlInit()
    return pynvml


@contextlib.contextmanager
def _nvml() -> Iterator[Any]:
    nvml = _start()
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _describe(nvml: Any, index: int, driver: str) -> dict[str, Any]:
    gpu = nvml.nvmlDeviceGetHandleByIndex(index)
    record: dict[str, Any] = {"index": index, "name": nvml.nvmlDeviceGetName(gpu), "driver": driver}
    optional: dict[str, Callable[[], Any]] = {
        "memory_total": lambda: nvml.nvmlDeviceGetMemoryInfo(gpu).total,
        "cuda_driver": lambda: _cuda(nvml.nvmlSystemGetCudaDriverVersion()),
        "compute_capability": lambda: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(gpu)),
        "mig": lambda: bool(nvml.nvmlDeviceGetMigMode(gpu)[0]),
    }
    for key, read in optional.items():
        with contextlib.suppress(nvml.NVMLError):
            record[key] = read()
    return record


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _why(error: Exception) -> str:
    if isinstance(error, ImportError):
        return "the Python package nvidia-ml-py is missing"
    known = {
        "_NoLibrary": NO_LIBRARY,
        "NVMLError_LibraryNotFound": NO_LIBRARY,
        "NVMLError_DriverNotLoaded": NO_DRIVER,
        "NVMLError_NoPermission": NO_PERMISSION,
    }
    return known.get(type(error).__name__, str(error))
