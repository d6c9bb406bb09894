"""Judging raw views: every sentence a machine without GPU, quota or fault cannot show."""

from __future__ import annotations

from typing import Any

import pytest

from fitdoctor.facts import machine as facts

GPU = {
    "index": 0,
    "name": "NVIDIA A10G",
    "driver": "550.54.15",
    "cuda_driver": "12.4",
    "memory_total": 24 << 30,
    "compute_capability": "8.6",
    "mig": False,
}


def host(**changes: Any) -> dict[str, Any]:
    view: dict[str, Any] = {
        "python": "3.12.1",
        "implementation": "CPython",
        "os": "Linux",
        "kernel": "6.8.0",
        "machine": "x86_64",
        "logical_cores": 8,
        "physical_cores": 4,
        "affinity": 8,
        "cores": 8,
        "memory_total": 64 << 30,
        "memory_available": 32 << 30,
        "swap_total": 0,
        "settings": {},
        "nvidia_cards": 0,
        "gpus": [],
        "gpus_why": "library not found",
    }
    return {**view, **changes}


def tf(seen: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    answer = {"gpus": 0, "built_with_cuda": True, "cuda": "12.5.1", "cudnn": "9", "intra_threads": 0}
    view = {"name": "tensorflow", "version": "2.21.0", "distributions": ["tensorflow"], "plugins": {}}
    return {**view, "seen": {**answer, **(seen or {})}, **changes}


def jax(seen: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    view = {"name": "jax", "version": "0.10.2", "distributions": ["jax"], "plugins": {"jaxlib": "0.10.2"}}
    return {**view, "seen": {"gpus": 0, "platform": "cpu", **(seen or {})}, **changes}


def torch(seen: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    answer = {"gpus": 0, "built_with_cuda": False, "cuda": None, "cudnn": None, "intra_threads": 4}
    view = {"name": "torch", "version": "2.13.0+cpu", "distributions": ["torch"], "plugins": {}}
    return {**view, "seen": {**answer, **(seen or {})}, **changes}


def keras(**changes: Any) -> dict[str, Any]:
    return {"version": "3.15.1", "backend": "tensorflow", "backend_from": "default", **changes}


WITH_GPU = host(gpus=[GPU], gpus_why="", nvidia_cards=1)


@pytest.mark.parametrize(
    ("view", "command"),
    [
        (
            tf({"built_with_cuda": False}, distributions=["tensorflow-cpu"]),
            "python -m pip uninstall -y tensorflow-cpu && python -m pip install 'tensorflow[and-cuda]==2.21.0'",
        ),
        (tf(), "python -m pip install 'tensorflow[and-cuda]==2.21.0'"),
        (jax(), "python -m pip install 'jax[cuda12]==0.10.2'"),
        (torch(), "python -m pip uninstall -y torch && python -m pip install torch==2.13.0"),
    ],
)
def test_a_gpu_the_framework_does_not_see(view: dict[str, Any], command: str) -> None:
    line = facts.framework(view, WITH_GPU)
    assert line.state == "problem"
    assert "sees 0 of 1 GPU" in line.found
    assert line.do == command


def test_a_wheel_without_gpu_support_is_named_as_the_reason() -> None:
    assert "this wheel has no GPU support" in facts.framework(torch(), WITH_GPU).found
    assert "this wheel has no GPU support" in facts.framework(jax(), WITH_GPU).found
    assert "this wheel has no GPU support" not in facts.framework(tf(), WITH_GPU).found


def test_the_cuda_plugin_follows_the_driver() -> None:
    new = host(gpus=[{**GPU, "cuda_driver": "13.0"}])
    assert "jax[cuda13]" in facts.framework(jax(), new).do


def test_a_driver_too_old_for_the_wheel() -> None:
    line = facts.framework(torch({"built_with_cuda": True, "cuda": "13.0"}, version="2.13.0+cu130"), WITH_GPU)
    assert line.state == "problem"
    assert "needs CUDA 13.0, the driver supports up to 12.4" in line.found


def test_settings_that_hide_the_gpu() -> None:
    hidden = host(gpus=[GPU], settings={"CUDA_VISIBLE_DEVICES": ""})
    assert facts.gpu(hidden).do == "unset CUDA_VISIBLE_DEVICES"
    assert facts.framework(tf(), hidden).do == "unset CUDA_VISIBLE_DEVICES"
    forced = host(gpus=[GPU], settings={"JAX_PLATFORMS": "cpu"})
    assert facts.framework(jax(plugins={"jax-cuda12-plugin": "0.10.2"}), forced).do == "unset JAX_PLATFORMS"


def test_a_chosen_subset_of_gpus_is_fine() -> None:
    two = host(gpus=[GPU, GPU], settings={"CUDA_VISIBLE_DEVICES": "1"})
    assert facts.framework(tf({"gpus": 1}), two).state == "pass"


def test_every_gpu_seen() -> None:
    line = facts.framework(tf({"gpus": 1}), WITH_GPU)
    assert (line.state, line.do) == ("pass", "")
    assert "CUDA 12.5.1, cuDNN 9" in line.found


def test_no_gpu_anywhere_is_no_problem() -> None:
    judged = facts.lines(host(), keras(), [tf(), jax(), torch()])
    assert {line.state for line in judged} == {"pass"}
    assert "without GPU support" in next(line.found for line in judged if line.subject == "torch")


def test_a_framework_that_cannot_be_asked() -> None:
    view = tf(failure="crashed with SIGSEGV")
    del view["seen"]
    line = facts.framework(view, host())
    assert line.state == "unknown"
    assert "crashed with SIGSEGV" in line.found
    assert line.do == 'python -c "import tensorflow"'


def test_two_wheels_over_each_other() -> None:
    line = facts.framework(tf({"gpus": 1}, distributions=["tensorflow", "tensorflow-cpu"]), WITH_GPU)
    assert line.state == "problem"
    remove = "python -m pip uninstall -y tensorflow tensorflow-cpu && "
    assert line.do == f"{remove}python -m pip install 'tensorflow[and-cuda]==2.21.0'"
    without = facts.framework(tf(distributions=["tensorflow", "tensorflow-cpu"]), host())
    assert without.do == f"{remove}python -m pip install tensorflow==2.21.0"


@pytest.mark.parametrize(
    ("why", "word"),
    [
        ("library not found", "--gpus all"),
        ("driver not loaded", "modprobe nvidia"),
        ("no device", "nvidia-smi -L"),
    ],
)
def test_a_card_without_a_driver(why: str, word: str) -> None:
    line = facts.gpu(host(nvidia_cards=1, gpus_why=why))
    assert line.state == "problem"
    assert why in line.found
    assert word in line.do


def test_a_driver_that_may_not_be_asked_is_unknown() -> None:
    line = facts.gpu(host(gpus_why="permission"))
    assert line.state == "unknown"
    assert "/dev/nvidia" in line.do


def test_pools_larger_than_the_quota() -> None:
    limited = host(cores=2.0, cpu_quota=2.0)
    first, second = facts.threads(limited, [tf(), jax(), torch()])
    assert first.found == "tensorflow starts 8, torch starts 4 threads on 2 cores"
    assert first.do == "export OMP_NUM_THREADS=2 TF_NUM_INTRAOP_THREADS=2 TF_NUM_INTEROP_THREADS=2"
    assert second.found == "jax starts 8 threads on 2 cores"
    assert second.do == "taskset -c 0-1 python train.py"


def test_taskset_names_cores_that_are_allowed() -> None:
    limited = host(cores=2.0, cpu_quota=2.0, affinity=4, affinity_cores=[4, 5, 6, 7])
    assert facts.threads(limited, [jax()])[0].do == "taskset -c 4,5 python train.py"


def test_an_affinity_mask_alone_is_respected_by_the_frameworks() -> None:
    pinned = host(cores=2, affinity=2, affinity_cores=[0, 1])
    assert [line.state for line in facts.threads(pinned, [tf(), jax()])] == ["pass"]


@pytest.mark.parametrize(
    ("settings", "cores", "do"),
    [
        ({"OMP_NUM_THREADS": "64"}, 8, "export OMP_NUM_THREADS=8"),
        ({"OMP_NUM_THREADS": "1"}, 8, "unset OMP_NUM_THREADS"),
        ({"OMP_NUM_THREADS": "8"}, 8, ""),
        ({"OMP_NUM_THREADS": "2"}, 1.5, ""),
        ({"OMP_NUM_THREADS": "4,2"}, 8, ""),
    ],
)
def test_thread_settings_against_usable_cores(settings: dict[str, str], cores: float, do: str) -> None:
    (line,) = facts.threads(host(settings=settings, cores=cores), [])
    assert line.do == do
    assert line.state == ("problem" if do else "pass")


def test_cores_say_what_limits_them() -> None:
    line = facts.cores(host(cores=1.5, cpu_quota=1.5, affinity=4, cpu="EPYC"))
    assert line.found == "1.5 usable; 8 logical, 4 physical; affinity 4; quota 1.5; EPYC"
    assert facts.cores(host(cores=0.5, cpu_quota=0.5)).state == "problem"


def test_memory() -> None:
    line = facts.memory(host(memory_limit=8 << 30, swap_total=2 << 30, swap_used=1 << 30))
    assert line.found == "64.0 GiB; 32.0 GiB available; limited to 8.00 GiB; swap 1.00 GiB used of 2.00 GiB"
    assert facts.memory(host(memory_available=1 << 30)).state == "problem"
    bare = host()
    del bare["memory_total"]
    assert facts.memory(bare).state == "unknown"


@pytest.mark.parametrize(
    ("view", "names", "state", "do"),
    [
        (keras(), ["tensorflow"], "pass", ""),
        (keras(version=None), [], "problem", "python -m pip install keras"),
        (keras(version="2.15.0"), ["tensorflow"], "problem", "python -m pip install -U 'keras>=3.6'"),
        (
            keras(backend="torch", backend_from="KERAS_BACKEND"),
            ["jax"],
            "problem",
            "export KERAS_BACKEND=jax",
        ),
        (keras(backend="jax"), [], "problem", "python -m pip install jax"),
        (keras(backend="theano"), ["tensorflow"], "problem", "export KERAS_BACKEND=tensorflow"),
    ],
)
def test_keras_and_its_backend(view: dict[str, Any], names: list[str], state: str, do: str) -> None:
    line = facts.keras_line(view, [{"name": name} for name in names])
    assert (line.state, line.do) == (state, do)


def test_whatever_is_not_fine_says_what_to_do() -> None:
    broken = host(gpus=[GPU], cores=0.5, cpu_quota=0.5, memory_available=0, settings={"PYTHONDEVMODE": "1"})
    judged = facts.lines(broken, keras(version=None), [tf(), jax(), torch()])
    assert all(bool(line.do) == (line.state != "pass") for line in judged)
    assert {line.subject for line in judged if line.state == "pass"} == {"gpu"}
