"""The host probe on this very machine, and on trees that stand for others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fitdoctor.probes import host, procfs
from tests.probes.test_cgroup import v2

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def burn(seconds: float) -> None:
    """Use CPU time of the calling thread."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def test_environment_is_json_and_says_what_can_be_used() -> None:
    found = host.environment()
    assert json.loads(json.dumps(found)) == found
    assert found["python"].split(".")[:2] == [str(part) for part in sys.version_info[:2]]
    assert 0 < found["cores"] <= os.cpu_count()
    assert found["memory_total"] > found["memory_available"] > 0


def test_environment_imports_no_framework() -> None:
    code = (
        "import sys; from fitdoctor.probes.host import environment; environment();"
        "print([m for m in ('tensorflow', 'keras', 'jax', 'torch', 'numpy') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


@linux
def test_a_quota_limits_the_cores(tmp_path: Path) -> None:
    root = v2(tmp_path, "/job", {"job/cpu.max": "50000 100000", "job/memory.max": "1000"})
    found = host.environment(root)
    assert found["cpu_quota"] == found["cores"] == 0.5
    assert found["memory_limit"] == 1000


def test_what_cannot_be_read_is_absent_not_zero(tmp_path: Path) -> None:
    found = host.environment(tmp_path)
    assert not {"cpu_quota", "memory_limit", "nvidia_cards"} & set(found)
    assert None not in found.values()


@linux
@pytest.mark.skipif(os.cpu_count() == 1, reason="one core cannot be narrowed")
def test_a_real_affinity_mask_limits_the_cores() -> None:
    code = (
        "import os, json; first = min(os.sched_getaffinity(0)); os.sched_setaffinity(0, {first});"
        "from fitdoctor.probes.host import environment; e = environment();"
        "print(json.dumps([e['affinity'], e['cores'], e['affinity_cores'] == [first]]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    affinity, cores, named = json.loads(out)
    assert affinity == 1
    assert cores <= 1
    assert named


def test_settings_that_may_hold_paths_are_only_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/home/someone/dump")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    settings = host.environment()["settings"]
    assert settings["XLA_FLAGS"] == "(set)"
    assert settings["OMP_NUM_THREADS"] == "3"


def test_cpu_seconds_of_the_process_and_the_main_thread() -> None:
    sampler = host.HostSampler()
    before = sampler.sample()
    burn(0.3)
    after = sampler.sample()
    used = sum(after[key] - before[key] for key in ("cpu_user", "cpu_system"))
    assert 0.25 < used < 3
    assert sampler.gaps == []
    assert after["rss"] > 1 << 20
    assert json.loads(json.dumps(after)) == after


@linux
def test_threads_are_kept_apart_and_never_forgotten() -> None:
    sampler = host.HostSampler()
    before = sampler.sample()["threads"]
    go, done = threading.Event(), threading.Event()

    def work() -> None:
        burn(0.3)
        done.set()
        go.wait(20)

    thread = threading.Thread(target=work)
    thread.start()
    done.wait(20)
    alive = sampler.sample()["threads"]
    go.set()
    thread.join()
    ended = sampler.sample()["threads"]
    others = [{name: value for name, value in each.items() if name != "main"} for each in (before, alive, ended)]
    sums = [sum(each.values()) for each in others]
    assert sums[1] - sums[0] > 0.2
    assert sums[2] >= sums[1] - 0.011
    assert ended["main"] - before["main"] < 0.2


@linux
def test_thread_groups_of_a_made_up_process(tmp_path: Path) -> None:
    def stat(tid: int, name: str, ticks: int, start: int) -> None:
        folder = tmp_path / "task" / str(tid)
        folder.mkdir(parents=True, exist_ok=True)
        fields = ["S"] + ["0"] * 10 + [str(ticks), "0"] + ["0"] * 6 + [str(start)] + ["0"] * 20
        (folder / "stat").write_text(f"{tid} ({name}) {' '.join(fields)}\n")

    tick = os.sysconf("SC_CLK_TCK")
    threads = procfs.Threads(7, os.fsencode(tmp_path))
    stat(7, "python", tick, 1)
    stat(8, "tf_data_1", 2 * tick, 1)
    stat(9, "odd ) name 2", 3 * tick, 1)
    assert threads.read() == {"threads": {"main": 1.0, "tf_data": 2.0, "odd ) name": 3.0}}
    stat(8, "tf_data_5", tick, 2)  # the id was given to a new thread
    assert threads.read()["threads"]["tf_data"] == 3.0


@linux
def test_worker_processes_are_counted_with_their_cpu() -> None:
    code = "from time import process_time as t\nwhile t() < 0.35: pass\nprint(flush=True)\ninput()"
    sampler = host.HostSampler()
    worker = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert worker.stdout is not None
    worker.stdout.readline()
    seen = sampler.sample()
    assert seen["children"] >= 1
    assert seen["children_cpu"] > 0.25
    worker.communicate(b"\n")
    after = sampler.sample()
    assert after["children"] == seen["children"] - 1
    assert after["children_cpu"] >= seen["children_cpu"]


@linux
def test_another_process_can_be_watched(sleeper: subprocess.Popen[bytes]) -> None:
    sampler = host.HostSampler(sleeper.pid)
    seen = sampler.sample()
    assert seen["cpu_user"] + seen["cpu_system"] < 10
    assert seen["thread_count"] == 1
    assert sampler.gaps == []


@linux
def test_a_process_that_is_gone_leaves_gaps_once_and_raises_nothing(sleeper: subprocess.Popen[bytes]) -> None:
    sampler = host.HostSampler(sleeper.pid)
    sampler.sample()
    sleeper.send_signal(signal.SIGKILL)
    sleeper.wait()
    assert "cpu_user" not in sampler.sample()
    gaps = list(sampler.gaps)
    assert any(gap.what == "host: process" for gap in gaps)
    assert "memory_available" in sampler.sample()
    assert sampler.gaps == gaps


def test_a_system_without_proc_still_gets_what_psutil_knows(tmp_path: Path) -> None:
    sampler = host.HostSampler(root=tmp_path)
    seen = sampler.sample()
    assert {"cpu_user", "rss", "memory_available", "children"} <= set(seen)
    assert sampler.gaps == []


@linux
def test_throttling_is_read_where_there_is_a_quota(tmp_path: Path) -> None:
    stat = "nr_periods 9\nnr_throttled 4\nthrottled_usec 2000000"
    root = v2(tmp_path, "/job", {"job/cpu.max": "50000 100000", "job/cpu.stat": stat})
    pid = os.getpid()
    (root / "proc" / "self").rename(root / "proc" / str(pid))
    (root / "proc" / str(pid) / "stat").write_text("")
    sampler = host.HostSampler(root=root)
    assert sampler.sample()["throttling"] == {"periods": 9, "throttled_periods": 4, "throttled_s": 2.0}
    assert any(gap.what == "host: process" for gap in sampler.gaps)


@linux
def test_a_sample_is_cheap() -> None:
    sampler = host.HostSampler()
    sampler.sample()
    used = []
    for _ in range(20):
        start = time.thread_time()
        sampler.sample()
        used.append(time.thread_time() - start)
    assert sorted(used)[10] < 0.02
    assert len(os.listdir("/proc/self/fd")) < 200


@linux
def test_long_files_are_read_to_the_end() -> None:
    whole = Path("/proc/vmstat").read_bytes()
    assert len(procfs.read(b"/proc/vmstat").splitlines()) == len(whole.splitlines())


@linux
def test_waiting_for_memory_is_read_where_the_kernel_counts_it(tmp_path: Path) -> None:
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/stat").write_text("1 (a) S " + " ".join(["0"] * 40))
    (tmp_path / "proc/pressure").mkdir()
    pressure = tmp_path / "proc/pressure/memory"
    pressure.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=1000000\n")
    assert host.HostSampler(1, tmp_path).sample()["memory_stall"] == {"some": 2.5, "full": 1.0}
    pressure.unlink()
    sampler = host.HostSampler(1, tmp_path)
    assert "memory_stall" not in sampler.sample()
    assert not [gap for gap in sampler.gaps if "pressure" in gap.what]


@pytest.mark.parametrize(("flags", "found"), [("fpu avx2", False), ("fpu avx512_bf16", True)])
def test_16_bit_arithmetic_of_the_processor(tmp_path: Path, flags: str, found: bool) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor: 0\nflags: {flags}\n")
    assert host.has_bf16(tmp_path / "cpuinfo") is found
    assert host.has_bf16(tmp_path / "missing") is None


def test_processor_time_that_others_took() -> None:
    found = procfs.parse_machine(b"cpu  100 0 50 700 10 0 5 35 0 0\ncpu0 1 2 3\n")
    assert found["machine_stolen"] / found["machine_cpu"] == pytest.approx(35 / 900)
    with pytest.raises(ValueError, match="eight counters"):
        procfs.parse_machine(b"cpu 1 2 3\n")
