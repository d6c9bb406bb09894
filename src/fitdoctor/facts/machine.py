"""What the machine and the installed stack offer, judged line by line from raw views.

Pure functions: the views come from `probes.host.environment` and `probes.frameworks`, or from a test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fitdoctor.units import size

State = Literal["pass", "problem", "unknown"]
View = Mapping[str, Any]

_POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS")
_MODULES = {
    "tensorflow": "tensorflow",
    "jax": "jax",
    "torch": "torch",
    "openvino": "openvino",
    "numpy": "numpy",
}
_NO_DRIVER = {
    "library not found": "install the NVIDIA driver; in a container: docker run --gpus all …",
    "driver not loaded": "sudo modprobe nvidia && nvidia-smi",
    "no device": "nvidia-smi -L; in a container: docker run --gpus all …",
    "permission": "ls -l /dev/nvidia*; sudo usermod -aG video $USER, then log in again",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing looked at."""

    subject: str
    state: State
    found: str
    do: str = ""
    """An exact command, for a problem or an unknown."""


def lines(machine: View, keras: View, frameworks: Sequence[View]) -> tuple[Line, ...]:
    """Judge everything, the machine first."""
    return (
        python(machine),
        cores(machine),
        *threads(machine, frameworks),
        memory(machine),
        gpu(machine),
        *(framework(each, machine) for each in frameworks),
        keras_line(keras, frameworks),
    )


def python(machine: View) -> Line:
    """Name the interpreter and the system."""
    slow = machine.get("settings", {}).get("PYTHONDEVMODE")
    system = f"{machine['os']} {machine['kernel']}, {machine['machine']}"
    found = f"{machine['implementation']} {machine['python']} on {system}"
    if slow and slow != "0":
        return Line("python", "problem", f"{found}; development mode is on", "unset PYTHONDEVMODE")
    return Line("python", "pass", found)


def cores(machine: View) -> Line:
    """Say how many cores can really be used, and what limits them."""
    if "cores" not in machine:
        return Line(
            "cores",
            "unknown",
            "the number of cores could not be read",
            'python -c "import os; os.cpu_count()"',
        )
    parts = [f"{count(machine['cores'])} usable"]
    if "logical_cores" in machine:
        physical = machine.get("physical_cores")
        parts.append(f"{machine['logical_cores']} logical" + (f", {physical} physical" if physical else ""))
    if "affinity" in machine and machine["affinity"] != machine.get("logical_cores"):
        parts.append(f"affinity {machine['affinity']}")
    parts.append(f"quota {count(machine['cpu_quota'])}" if "cpu_quota" in machine else "no quota")
    if "cpu" in machine:
        parts.append(str(machine["cpu"]))
    found = "; ".join(parts)
    if machine["cores"] < 1:
        return Line("cores", "problem", found, "raise the CPU quota: docker update --cpus 2 CONTAINER")
    return Line("cores", "pass", found)


def threads(machine: View, frameworks: Sequence[View]) -> tuple[Line, ...]:
    """Compare thread settings, and pools sized without looking at the quota, with the usable cores."""
    usable = machine.get("cores")
    if usable is None:
        return ()
    whole = max(1, math.floor(usable))
    settings = {name: value for name, value in machine.get("settings", {}).items() if name in _POOLS}
    too_many, too_few = [], []
    for name, value in settings.items():
        if value.isdigit() and int(value) > math.ceil(usable):
            too_many.append(name)
        elif value.isdigit() and 0 < int(value) < whole:
            too_few.append(name)
    shown = " ".join(f"{name}={value}" for name, value in settings.items())
    if too_many:
        wanted = " ".join(f"{name}={whole}" for name in too_many)
        return (Line("threads", "problem", f"{shown} on {_cores(usable)}", f"export {wanted}"),)
    if too_few:
        found = f"{shown} leaves cores idle: {_cores(usable)} usable"
        return (Line("threads", "problem", found, f"unset {' '.join(too_few)}"),)
    large = {
        name: number for name, number in _pools(machine, frameworks, settings).items() if number > math.ceil(usable)
    }
    if not large:
        return (Line("threads", "pass", f"{shown or 'no settings'}; pools fit {_cores(usable)}"),)
    # XLA's pool for the CPU has no setting: it goes by the affinity mask alone.
    jax = {name: large.pop(name) for name in ("jax",) if name in large}
    remedies = [
        (large, _export(large, whole)),
        (jax, f"taskset -c {_first_cores(machine, whole)} python train.py"),
    ]
    return tuple(
        Line("threads", "problem", f"{_starts(pools)} threads on {_cores(usable)}", do)
        for pools, do in remedies
        if pools
    )


def _starts(pools: Mapping[str, int]) -> str:
    return ", ".join(f"{name} starts {number}" for name, number in pools.items())


def _first_cores(machine: View, whole: int) -> str:
    """Name as many cores as may be used, in taskset's words."""
    allowed = machine.get("affinity_cores")
    if allowed is None:
        return f"0-{whole - 1}" if whole > 1 else "0"
    return ",".join(str(core) for core in allowed[:whole])


def _pools(machine: View, frameworks: Sequence[View], settings: Mapping[str, str]) -> dict[str, int]:
    """Return the size of each framework's compute pool.

    By default TensorFlow and JAX take one thread per core of the affinity mask; no framework looks at a
    quota.
    """
    default = machine.get("affinity", machine.get("logical_cores"))
    pools: dict[str, int] = {}
    for each in frameworks:
        asked = (each.get("seen") or {}).get("intra_threads")
        if asked:
            pools[each["name"]] = int(asked)
        elif each["name"] == "tensorflow" and settings.get("TF_NUM_INTRAOP_THREADS", "").isdigit():
            pools["tensorflow"] = int(settings["TF_NUM_INTRAOP_THREADS"])
        elif default and each.get("seen") is not None:
            pools[each["name"]] = int(default)
    return pools


def _export(pools: Mapping[str, int], whole: int) -> str:
    names = ["OMP_NUM_THREADS"]
    if "tensorflow" in pools:
        names += ["TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"]
    return "export " + " ".join(f"{name}={whole}" for name in names)


def memory(machine: View) -> Line:
    """Say how much memory there is, what limits it, and whether it is nearly gone."""
    if "memory_total" not in machine:
        return Line("memory", "unknown", "the size of memory could not be read", "free -h")
    total, available = machine["memory_total"], machine.get("memory_available")
    limit = machine.get("memory_limit")
    parts = [size(total)]
    if available is not None:
        parts.append(f"{size(available)} available")
    if limit is not None and limit < total:
        parts.append(f"limited to {size(limit)}")
    swap = machine.get("swap_total")
    if swap is not None:
        parts.append(f"swap {size(machine.get('swap_used', 0))} used of {size(swap)}" if swap else "no swap")
    if available is not None and available < 0.1 * total:
        return Line("memory", "problem", "; ".join(parts), "ps aux --sort=-rss | head")
    return Line("memory", "pass", "; ".join(parts))


def gpu(machine: View) -> Line:
    """Say which GPUs the driver offers."""
    gpus: Sequence[View] = machine.get("gpus", ())
    if gpus:
        first = gpus[0]
        names = ", ".join(_gpu(each) for each in gpus)
        found = f"{names}; driver {first['driver']}"
        if "cuda_driver" in first:
            found += f", CUDA up to {first['cuda_driver']}"
        hidden = machine.get("settings", {}).get("CUDA_VISIBLE_DEVICES")
        if hidden is not None and hidden.strip() in ("", "-1", "NoDevFiles"):
            return Line("gpu", "problem", f"{found}; hidden by CUDA_VISIBLE_DEVICES={hidden!r}", _UNHIDE)
        return Line("gpu", "pass", found)
    why = machine.get("gpus_why", "")
    cards = machine.get("nvidia_cards", 0)
    if cards:
        found = f"{cards} NVIDIA card{'s' if cards > 1 else ''} on the PCI bus, but the driver offers none: {why}"
        return Line("gpu", "problem", found, _NO_DRIVER.get(why, "nvidia-smi"))
    if why in ("library not found", "no device", "driver not loaded"):
        return Line("gpu", "pass", "no NVIDIA GPU in this machine: training runs on the CPU")
    return Line("gpu", "unknown", f"the driver could not be asked: {why}", _NO_DRIVER.get(why, "nvidia-smi"))


_UNHIDE = "unset CUDA_VISIBLE_DEVICES"


def _gpu(each: View) -> str:
    parts = [size(each["memory_total"])] if "memory_total" in each else []
    if "compute_capability" in each:
        parts.append(f"compute {each['compute_capability']}")
    if each.get("mig"):
        parts.append("MIG")
    return f"{each['name']} ({', '.join(parts)})" if parts else str(each["name"])


def framework(view: View, machine: View) -> Line:
    """Compare what a framework sees with what the driver offers."""
    name, version = view["name"], view.get("version")
    title = " ".join([str(version or "unknown version"), *_wheel(view)])
    seen = view.get("seen")
    if seen is None:
        reason = view.get("failure", "it was not asked")
        return Line(name, "unknown", f"{title}: could not be asked: {reason}", f'python -c "import {name}"')
    both = list(view.get("distributions", ()))
    if len(both) > 1 and any(each.endswith("-cpu") for each in both):
        again = install({**view, "distributions": []}, machine)
        do = f"python -m pip uninstall -y {' '.join(both)} && {again}"
        return Line(name, "problem", f"{title}: {' and '.join(both)} overwrite each other's files", do)
    gpus: Sequence[View] = machine.get("gpus", ())
    sees = f"sees {seen['gpus']} of {len(gpus)} GPU{'s' if len(gpus) != 1 else ''}"
    stack = _stack(seen)
    if not gpus:
        where = "sees the Apple GPU" if seen.get("mps") else "computes on the CPU"
        if cpu_only(view, seen) and not seen.get("mps"):
            where += " (a wheel without GPU support)"
        return Line(name, "pass", f"{title}{stack}: {where}")
    if seen["gpus"] >= len(gpus):
        return Line(name, "pass", f"{title}{stack}: {sees}")
    visible = machine.get("settings", {}).get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        found = f"{title}{stack}: {sees}, limited by CUDA_VISIBLE_DEVICES={visible!r}"
        chosen = seen["gpus"] > 0 and seen["gpus"] == len([part for part in visible.split(",") if part.strip()])
        return Line(name, "pass", found) if chosen else Line(name, "problem", found, _UNHIDE)
    if any(each.get("mig") for each in gpus) and seen["gpus"]:
        return Line(name, "pass", f"{title}{stack}: {sees} (MIG: one instance per process)")
    why, do = _hidden(view, seen, machine)
    return Line(name, "problem", f"{title}{stack}: {sees}: {why}", do)


def _hidden(view: View, seen: View, machine: View) -> tuple[str, str]:
    """Say why a framework does not see the GPUs, and the command that helps."""
    name = view["name"]
    platforms = machine.get("settings", {}).get("JAX_PLATFORMS")
    if name == "jax" and platforms:
        return f"limited by JAX_PLATFORMS={platforms}", "unset JAX_PLATFORMS"
    if cpu_only(view, seen):
        return "this wheel has no GPU support", install(view, machine)
    driver = machine["gpus"][0].get("cuda_driver")
    built = seen.get("cuda")
    if driver and built and _major(built) > _major(driver):
        why = f"it needs CUDA {built}, the driver supports up to {driver}"
        return why, f"update the NVIDIA driver to one that supports CUDA {_major(built)}, then: nvidia-smi"
    if seen["gpus"]:
        return (
            "the others are hidden from it",
            f'CUDA_VISIBLE_DEVICES=0 python -c "import {name}"; nvidia-smi -L',
        )
    said = str(seen.get("gpu_failure") or "").partition("\n")[0]
    return "its CUDA libraries were not found or do not fit" + (f": {said}" if said else ""), install(view, machine)


def cpu_only(view: View, seen: View) -> bool:
    """Tell whether the installed wheel cannot use a GPU at all."""
    if view["name"] == "jax":
        return not any("cuda" in each or "rocm" in each for each in view.get("plugins", {}))
    if any(each.endswith("-cpu") for each in view.get("distributions", ())):
        return True
    return "+cpu" in str(view.get("version")) or not seen.get("built_with_cuda", True)


def install(view: View, machine: View) -> str:
    """Return the command that installs the same version, with GPU support where there is a GPU."""
    name = view["name"]
    version = str(view.get("version") or "").partition("+")[0]
    pin = f"=={version}" if version else ""
    if name == "tensorflow":
        others = [each for each in view.get("distributions", ()) if each.endswith("-cpu")]
        remove = f"python -m pip uninstall -y {' '.join(others)} && " if others else ""
        wanted = f"'tensorflow[and-cuda]{pin}'" if machine.get("gpus") else f"tensorflow{pin}"
        return f"{remove}python -m pip install {wanted}"
    if name == "jax":
        driver = (machine.get("gpus") or [{}])[0].get("cuda_driver", "12")
        return f"python -m pip install 'jax[cuda{13 if _major(driver) >= 13 else 12}]{pin}'"
    return f"python -m pip uninstall -y torch && python -m pip install torch{pin}"


def keras_line(keras: View, frameworks: Sequence[View]) -> Line:
    """Check Keras's version and that its backend is installed."""
    version = keras.get("version")
    names = {each["name"] for each in frameworks}
    if version is None:
        return Line("keras", "problem", "Keras is not installed", "python -m pip install keras")
    if _major(version) < 3:
        return Line("keras", "problem", f"{version}: fitdoctor reads Keras 3", "python -m pip install -U 'keras>=3.6'")
    backend, origin = keras["backend"], keras["backend_from"]
    source = {"default": "the default", "keras.json": "from keras.json"}.get(origin, f"from {origin}")
    found = f"{version}, backend {backend} ({source})"
    if _MODULES.get(backend) is None:
        do = f"export KERAS_BACKEND={next(iter(sorted(names)), 'tensorflow')}"
        return Line("keras", "problem", f"{found}: there is no such backend", do)
    if backend in ("tensorflow", "jax", "torch") and backend not in names:
        other = next(iter(sorted(names)), None)
        do = f"export KERAS_BACKEND={other}" if other else f"python -m pip install {backend}"
        return Line("keras", "problem", f"{found}, which is not installed", do)
    return Line("keras", "pass", found)


def _wheel(view: View) -> list[str]:
    names = [each for each in view.get("distributions", ()) if each != view["name"]]
    names += [each for each in view.get("plugins", {}) if each != "jaxlib"]
    return [f"({', '.join(names)})"] if names else []


def _stack(seen: View) -> str:
    parts = [f"{label} {seen[key]}" for key, label in (("cuda", "CUDA"), ("cudnn", "cuDNN")) if seen.get(key)]
    return f", {', '.join(parts)}" if parts else ""


def _major(version: Any) -> int:
    head = str(version).partition(".")[0]
    return int(head) if head.isdigit() else 0


def count(number: float) -> str:
    """Write a number of cores: whole where it is.

    >>> count(4), count(1.5)
    ('4', '1.5')
    """
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _cores(number: float) -> str:
    return f"{count(number)} core{'s' if number != 1 else ''}"
