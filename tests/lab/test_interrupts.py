"""Ctrl-C while experiments run."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from fitdoctor.lab import interrupts


@pytest.fixture(autouse=True)
def as_python_has_it() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Swallows:
    """What Python raises in a finaliser is printed and forgotten."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


class Fails:
    def __del__(self) -> None:
        raise ValueError("a bug of the user's")


def test_an_interrupt_that_got_lost_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: printed.append(what.exc_type.__name__))
    with interrupts.kept_in_mind():
        Swallows()
        Fails()
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
    assert printed == ["ValueError"], "what got lost is not printed: it is not lost"
    Fails()
    assert printed == ["ValueError"] * 2


def test_one_that_was_not_lost_is_raised_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts.kept_in_mind():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_earlier_one_is_over() -> None:
    with pytest.raises(KeyboardInterrupt), interrupts.kept_in_mind():
        signal.raise_signal(signal.SIGINT)
    with interrupts.kept_in_mind():
        interrupts.check()


def test_a_script_that_listens_itself_still_hears_it() -> None:
    heard = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    with interrupts.kept_in_mind():
        signal.raise_signal(signal.SIGINT)
        assert heard == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_who_ignores_it_goes_on_ignoring_it() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupts.kept_in_mind():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_thread_hears_no_signals() -> None:
    def listens() -> None:
        with interrupts.kept_in_mind():
            interrupts.check()
            went.append(True)

    went: list[bool] = []
    thread = threading.Thread(target=listens)
    thread.start()
    thread.join()
    assert went


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
def test_what_native_code_took_is_taken_back() -> None:
    ignore = ctypes.CDLL(None).signal
    ignore.argtypes, ignore.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
    with interrupts.kept_in_mind():
        ignore(signal.SIGINT, 1)  # SIG_IGN
        signal.raise_signal(signal.SIGINT)
        interrupts.check()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_handler_that_a_callback_sets_meanwhile_stays() -> None:
    heard = []
    with interrupts.kept_in_mind():
        signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
        interrupts.check()
        signal.raise_signal(signal.SIGINT)
    assert heard == [signal.SIGINT]
