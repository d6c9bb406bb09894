"""Ctrl-C (or an exit) once the training was unwound ends what is left of the experiments: the script hears nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fitdoctor.capture import store

UNWOUND = """
import os, signal, sys, time
from pathlib import Path
from fitdoctor.capture import session as sessions, store
from fitdoctor.probes.calls import ActiveCall

signal.signal(signal.SIGINT, signal.default_int_handler)
observed = sessions.Session(store.Writer(Path(sys.argv[1])), time.perf_counter_ns(), mode="capped")
interrupt = lambda *_: os.kill(os.getpid(), signal.SIGINT)


def experiments(recorder, call, model, arguments, seconds, tell):
    tell(call.kind)
    print(call.kind, flush=True)
    if call.kind == sys.argv[2]:
        if sys.argv[3:]:
            sys.exit(3)
        interrupt()
        time.sleep(10)


def made(number, kind):
    call = ActiveCall(number, kind, None, None, 0)
    call.arguments = call.model = ()
    return call


observed.experiments = experiments
observed.tracker.repeated = lambda: [made(2, "predict"), made(3, "evaluate")]
if sys.argv[2] == "finish":
    observed.recorder.close = interrupt
try:
    observed._cap_in_fit(made(1, "fit"), None)
finally:
    print("the script goes on", flush=True)
"""


@pytest.mark.parametrize(
    ("where", "made"),
    [
        ("predict", ["predict"]),
        ("fit", ["predict", "evaluate", "fit"]),
        ("fit exits", ["predict", "evaluate", "fit"]),
        ("finish", ["predict", "evaluate", "fit"]),
    ],
)
def test_nothing_more_is_done(tmp_path: Path, where: str, made: list[str]) -> None:
    capture = tmp_path / "c.fitdoctor"
    command = [sys.executable, "-c", UNWOUND, str(capture), *where.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.split("\n")[:-1]) == (0, made), done.stderr
    if where != "finish":
        found = store.read(capture)
        assert any(gap.what == "the rest of the experiments" for gap in found.gaps)
        assert found.meta["exit"]["reason"] == "capped"
