"""The GIL, watched from outside on real processes."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
from dataclasses import asdict

import pytest

from fitdoctor.model import Gap
from fitdoctor.probes.gil import GilAddress, GilSampler, locate

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads another process's memory")

CHILD = """
import dataclasses, json, sys, threading, time
from fitdoctor.probes.gil import locate
{setup}
print(json.dumps(dataclasses.asdict(locate())), flush=True)
while True:
    {work}
"""


def watch(work: str, setup: str = "", looks: int = 150) -> dict[str, int]:
    code = CHILD.format(work=work, setup=setup)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        sampler = GilSampler(GilAddress(**json.loads(child.stdout.readline())), rate=300)
        if sampler.gaps:
            pytest.skip(sampler.gaps[0].reason)
        sampler.start()
        total = {"looks": 0, "held": 0, "main": 0}
        while total["looks"] < looks:
            assert child.poll() is None
            for key, value in sampler.take().items():
                total[key] += value
        sampler.stop()
        return total
    finally:
        child.kill()
        child.wait()


@linux
def test_a_busy_python_loop_holds_it() -> None:
    seen = watch("sum(range(1000))")
    assert seen["held"] > 0.8 * seen["looks"]
    assert seen["main"] == seen["held"]


@linux
def test_a_busy_thread_is_told_from_the_main_thread() -> None:
    setup = "def spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()"
    seen = watch("time.sleep(1)", setup)
    assert seen["held"] > 0.8 * seen["looks"]
    assert seen["main"] < 0.2 * seen["looks"]


@linux
def test_it_is_found_while_other_threads_fight_for_it() -> None:
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            pass

    threads = [threading.Thread(target=spin) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        found = [locate() for _ in range(20)]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(set(found)) == 1
    assert isinstance(found[0], GilAddress)


@linux
def test_sleeping_leaves_it_free() -> None:
    seen = watch("time.sleep(0.05)")
    assert seen["held"] < 0.2 * seen["looks"]


@linux
def test_numpy_leaves_it_free() -> None:
    seen = watch("a @ a", "import numpy as np; a = np.ones((1500, 1500))", looks=60)
    assert seen["held"] < 0.3 * seen["looks"]


def test_counts_come_from_the_memory_read() -> None:
    answers = iter([(11, 1), (22, 1), (11, 0)])
    where = GilAddress(1, 0x1000, main=11)
    sampler = GilSampler(where, read=lambda _address, _size: struct.pack("@Pi", *next(answers)))
    assert [sampler.look() for _ in range(3)] == [True, True, True]
    assert sampler.take() == {"looks": 3, "held": 2, "main": 1}
    assert sampler.take() == {}


def test_a_refusal_becomes_a_gap_with_a_remedy() -> None:
    def refuse(_address: int, _size: int) -> bytes:
        raise PermissionError(1, "Operation not permitted")

    sampler = GilSampler(GilAddress(1, 0x1000, main=11), read=refuse)
    assert not sampler.look()
    assert "SYS_PTRACE" in sampler.gaps[0].remedy


@linux
def test_a_process_that_is_gone_becomes_a_gap() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    sampler = GilSampler(GilAddress(child.pid, 0x1000, main=11))
    sampler.start()
    assert sampler.take() == {}
    assert sampler.gaps
    sampler.stop()


def test_a_gap_is_passed_on() -> None:
    gap = Gap("share of time the GIL is held", "elsewhere", "none")
    sampler = GilSampler(gap)
    sampler.start()
    assert sampler.take() == {}
    assert sampler.gaps == [gap]


def test_other_systems_get_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    found = locate()
    assert isinstance(found, Gap)
    assert "Linux" in found.remedy


@linux
def test_the_address_can_be_sent_to_another_process() -> None:
    found = locate()
    assert isinstance(found, GilAddress)
    assert GilAddress(**json.loads(json.dumps(asdict(found)))) == found
