"""Ctrl-C while a script runs in a child."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fitdoctor.capture.launch import _forwarded_signals


@contextmanager
def handled(by: Any) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, by)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("before", "came"), [(signal.default_int_handler, True), (signal.SIG_IGN, False)])
def test_it_is_heard_unless_it_is_ignored_as_in_the_background(before: Any, came: bool) -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    with handled(before):
        with _forwarded_signals(child) as heard:
            signal.raise_signal(signal.SIGINT)
            assert bool(heard) is came
        assert signal.getsignal(signal.SIGINT) is before
    child.wait()
