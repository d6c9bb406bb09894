"""Run the user's script in a child process and see it through to its end, whatever that is.

The child is started exactly as the user would start it (`python script.py args`), with one folder in front of its
PYTHONPATH whose `sitecustomize` attaches the probes and then removes itself.  So `__main__`, argv, the working folder,
the standard streams, tracebacks and exit codes are Python's own.  The parent shows progress by reading the capture
while it is being written, and finishes what a dead child could not.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from fitdoctor.capture import overlay, places, store
from fitdoctor.capture import scratch as scratching
from fitdoctor.capture.beside import Beside
from fitdoctor.capture.cap import DEFAULT_BUDGET, DEFAULT_STEPS
from fitdoctor.capture.child import BOOT_VARIABLE, Boot
from fitdoctor.capture.reminder import Reminder
from fitdoctor.errors import CannotWrite, CaptureError, UsageError
from fitdoctor.probes.host import environment
from fitdoctor.units import duration

POLL_SECONDS = 0.5
SETTLED_SECONDS, SETTLED_POLL_SECONDS = 15.0, 4.0
"""A run that goes on for long is looked at less often: looking takes time from a machine that is fully used."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `fitdoctor run` was asked to do."""

    target: str
    module: bool = False
    args: tuple[str, ...] = ()
    whole: bool = False
    steps: int | None = None
    budget: float = DEFAULT_BUDGET
    capture: Path | None = None
    redact: bool = False
    quiet: bool = False
    lab: bool = True
    sooner: tuple[str, ...] = ()
    """Experiments (modules of `lab.experiments`) that the question is about: made before others, with half the time."""
    backend: str | None = None
    """Which backend the environment asks Keras for; None: as it is.  A script may choose one itself all the same."""
    silent: bool = False
    """Let nothing be seen of what the script prints, and give it nothing to read."""
    aligned: bool = False
    """Stop after a whole number of executions, however many steps each has, so that losses can be compared."""
    overlay: Mapping[str, bytes] = field(default_factory=dict)
    """What some of the user's files are to be read as in this run, instead of what is in them."""
    settings: Mapping[str, Any] | None = None
    """What is turned in this run (see `tune/settings.py`); None: nothing, and nobody looks."""
    errors: Path | None = None
    """Where a silent run's standard error goes; None: nowhere."""


Stop = Callable[[Mapping[str, Any]], bool]
"""Told now and then how far the run has come; True ends it."""
ENDING_SECONDS = 5.0
"""How long a run that is ended may take for it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the script ended."""

    capture: Path | None
    returncode: int
    """As a shell would report it: 128 + n if signal n ended the script."""
    reason: str
    """capped, finished, exception or signal"""
    training_seen: bool
    message: str
    interrupted: bool = False
    """Ctrl-C came, whatever the script made of it."""


def launch(options: Options, progress: Callable[[str], None], stop: Stop | None = None) -> Ended:
    """Run the script under observation and return when it has ended, or when `stop` has had it ended."""
    target = _checked_target(options)
    now = time.time()
    path = options.capture or places.new_capture_path(_name(options), now)
    try:
        writer = store.Writer(path)
    except CannotWrite as error:
        if options.capture is not None:
            raise
        raise CannotWrite(error.problem, do="name a folder you can write to in FITDOCTOR_HOME") from error
    command = [*(["-m"] if options.module else []), options.target, *options.args]
    writer.meta(
        {
            "command": [os.path.basename(options.target)] if options.redact else command,
            "script": os.path.basename(target) if options.redact else target,
            "cwd": None if options.redact else os.getcwd(),
            "mode": "whole" if options.whole else "capped",
            "experiments": options.lab and not options.whole,
            "exit": {"code": None, "signal": None, "reason": "running"},
            "environment": environment(),
            **({"overlay": sorted(options.overlay)} if options.overlay and not options.redact else {}),
        }
    )
    writer.close()
    scratch = None if options.whole else Path(tempfile.mkdtemp(prefix="fitdoctor-"))
    try:
        returncode, interrupted = _run(options, path, scratch, target, progress, stop)
    finally:
        if scratch is not None:
            _remove_scratch(scratch)
    return replace(_ended(path, returncode, progress), interrupted=interrupted)


def _name(options: Options) -> str:
    return options.target.rsplit(".", 1)[-1] if options.module else Path(options.target).stem


def _checked_target(options: Options) -> str:
    if options.steps is not None and options.steps < 1:
        raise UsageError(f"--steps needs a whole number above 0, got {options.steps}")
    if not options.budget > 0:
        raise UsageError(f"--budget needs a number of seconds above 0, got {options.budget}")
    if options.module:
        return options.target
    script = Path(options.target)
    if os.path.isdir(script) and os.path.isfile(script / "__main__.py"):
        return str(script.resolve() / "__main__.py")
    if not os.path.isfile(script):
        found = "a folder without __main__.py" if os.path.isdir(script) else "no such file"
        raise UsageError(
            f"expected a Python script, found {found}: {script}",
            do="give the path of the script, or `-m package.module`",
        )
    if not os.access(script, os.R_OK):
        raise UsageError(f"the script {script} cannot be read", do="check its permissions")
    return str(script.resolve())


def _run(
    options: Options,
    path: Path,
    scratch: Path | None,
    target: str,
    progress: Callable[[str], None],
    stop: Stop | None,
) -> tuple[int, bool]:
    boot = Boot(
        capture=str(path.resolve()),
        started_ns=time.perf_counter_ns(),
        whole=options.whole,
        steps=options.steps,
        budget=options.budget,
        redact=options.redact,
        scratch=str(scratch) if scratch else None,
        script=target,
        lab=options.lab,
        sooner=list(options.sooner),
        aligned=options.aligned,
        settings=None if options.settings is None else dict(options.settings),
    )
    env = dict(os.environ)
    before = env.get("PYTHONPATH")
    folder = str(Path(__file__).parents[1] / "boot")
    env["PYTHONPATH"] = folder + (os.pathsep + before if before else "")
    if before is not None:
        env["FITDOCTOR_PYTHONPATH"] = before
    env[BOOT_VARIABLE] = boot.dumps()
    if options.backend is not None:
        env["KERAS_BACKEND"] = options.backend
    flags = ["-m"] if options.module else []
    streams = subprocess.DEVNULL if options.silent else None
    with _overlaid(options.overlay, env) as launcher, contextlib.ExitStack() as opened:
        name = options.target
        if name.startswith("-") and not options.module:
            name = os.path.join(os.curdir, name)  # what follows python and looks like an option is one
        command = [sys.executable, *launcher, *flags, name, *options.args]
        errors = streams if options.errors is None else opened.enter_context(options.errors.open("wb"))
        child = subprocess.Popen(command, env=env, stdin=streams, stdout=streams, stderr=errors)
        with _forwarded_signals(child) as came:
            again = functools.partial(_send, child, signal.SIGINT)
            reminder = Reminder(boot.started_ns, lambda: came[-1] if came else None, again)

            # Of a run that nobody sees Ctrl-C is meant for us, whatever the script makes of it.
            def ends(seen: Mapping[str, Any]) -> bool:
                reminder.look(seen)
                return (options.silent and bool(came)) or (stop is not None and stop(seen))

            code = _watch(child, path, options, progress, ends)
        if options.silent and came:
            raise KeyboardInterrupt
        return code, bool(came)


@contextlib.contextmanager
def _overlaid(files: Mapping[str, bytes], env: dict[str, str]) -> Iterator[list[str]]:
    """Give what has to stand in front of the script where some files are to be read as something else."""
    if not files:
        yield []
        return
    with tempfile.NamedTemporaryFile("w", prefix="fitdoctor-", suffix=".json", encoding="utf-8") as told:
        told.write(overlay.dumps(files))
        told.flush()
        env[overlay.VARIABLE] = told.name
        yield [overlay.LAUNCHER]


@contextlib.contextmanager
def _forwarded_signals(child: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Let the script decide about Ctrl-C (it gets it from the terminal itself); hand on a polite kill.

    Yields when Ctrl-C came.
    """
    came: list[int] = []

    def forward(number: int, frame: Any) -> None:
        _send(child, number)

    previous: dict[signal.Signals, Any] = {}
    with contextlib.suppress(ValueError):  # not in the main thread: nothing to forward
        previous[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: came.append(time.perf_counter_ns()))
        if previous[signal.SIGINT] == signal.SIG_IGN:  # in the background: it is for neither of us
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        previous[signal.SIGTERM] = signal.signal(signal.SIGTERM, forward)
        if hasattr(signal, "SIGHUP"):
            previous[signal.SIGHUP] = signal.signal(signal.SIGHUP, forward)
    try:
        yield came
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _send(child: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(number)


def _watch(
    child: subprocess.Popen[bytes], path: Path, options: Options, progress: Callable[[str], None], stop: Stop
) -> int:
    """Wait for the child and tell how far it has come."""
    told: set[str] = set()

    def tell(key: str, text: str) -> None:
        if key not in told:
            told.add(key)
            progress(text)

    if options.whole:
        tell("start", f"watching {options.target} to its end")
    else:
        steps = f"{options.steps} steady steps" if options.steps else f"about {DEFAULT_STEPS} steady steps"
        tell("start", f"watching {options.target} for {steps}, at most {duration(options.budget)} of training")
    beside = Beside(child.pid, path)
    ended = threading.Event()
    # A wait with a timeout would look twenty times a second; this one sleeps.
    threading.Thread(target=_await, args=(child, ended), name="fitdoctor-wait", daemon=True).start()
    start = time.monotonic()
    try:
        while True:
            settled = options.whole and time.monotonic() - start > SETTLED_SECONDS
            if ended.wait(SETTLED_POLL_SECONDS if settled else POLL_SECONDS):
                return child.wait()
            come: dict[str, Any] = {}
            with contextlib.suppress(CaptureError):
                meta = store.read_meta(path)
                beside.look(meta)
                come = meta.get("progress") or {}
                _tell_progress(come, options, tell)
            if stop(come):
                end(child.pid)
                return child.wait()
    finally:
        beside.close()


def end(pid: int) -> None:
    """End a process and all that it has started: workers whose parent is gone would wait for ever."""
    with contextlib.suppress(psutil.Error):
        first = psutil.Process(pid)
        every = [first, *first.children(recursive=True)]
        _each(every, psutil.Process.terminate)
        deadline = time.monotonic() + ENDING_SECONDS
        # Not psutil's wait: it would take the exit code away from whoever waits for the process.
        while any(map(_alive, every)) and time.monotonic() < deadline:
            time.sleep(0.02)
        _each([each for each in every if _alive(each)], psutil.Process.kill)


def _each(processes: Sequence[psutil.Process], act: Callable[[psutil.Process], None]) -> None:
    for each in processes:
        with contextlib.suppress(psutil.Error):
            act(each)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _await(child: subprocess.Popen[bytes], ended: threading.Event) -> None:
    child.wait()
    ended.set()


def _tell_progress(seen: dict[str, Any], options: Options, tell: Callable[[str, str], None]) -> None:
    if seen.get("kind") or seen.get("training"):
        where = f" at {_short(seen['site'])}" if seen.get("site") else ""
        tell(
            "training",
            f"training found ({seen.get('kind') or 'loop'}{where}); the first steps compile and warm up",
        )
    count = int(seen.get("steps") or 0)
    if options.whole:
        if count:
            magnitude = 10 ** (len(str(count)) - 1)
            tell(f"{magnitude}", f"{count} steady steps so far")
        return
    if seen.get("lab"):
        tell(seen["lab"], seen["lab"])
    target = options.steps or DEFAULT_STEPS
    for quarter in (1, 2, 3):
        if count >= target * quarter / 4:
            tell(f"q{quarter}", f"{_bar(quarter)} {count} of {target} steady steps")


def _bar(quarters: int) -> str:
    return "[" + "#" * (5 * quarters) + "." * (5 * (4 - quarters)) + "]"


def _short(site: str) -> str:
    path, _, line = site.rpartition(":")
    return f"{os.path.basename(path)}:{line}"


def _remove_scratch(root: Path) -> None:
    with contextlib.suppress(Exception):
        scratching.cleanup(root)
    shutil.rmtree(root, ignore_errors=True)


def _ended(path: Path, returncode: int, progress: Callable[[str], None]) -> Ended:
    """Finish what the child could not, and say how it ended."""
    code = 128 - returncode if returncode < 0 else returncode
    writer = store.Writer.reopen(path)
    exit_meta = writer.get_meta("exit") or {}
    reason = exit_meta.get("reason", "running")
    error = writer.get_meta("error")
    if returncode < 0:
        reason = "signal"
    elif reason == "running":
        reason = "finished" if returncode == 0 else "exception"
    elif reason == "finished" and returncode != 0:
        reason = "exception"
    seen = writer.get_meta("progress") or {}
    full = False
    try:
        writer.meta({"exit": {"code": code, "signal": -returncode if returncode < 0 else None, "reason": reason}})
        rows = writer._db.execute("SELECT count(*) FROM calls").fetchone()[0]
    except Exception:
        full, rows = True, 0
    writer.seal()
    message = _message(returncode, reason, error, bool(rows), seen, full)
    return Ended(path, code, reason, bool(rows), message)


def _message(returncode: int, reason: str, error: str | None, trained: bool, seen: dict[str, Any], full: bool) -> str:
    parts: list[str] = []
    if reason == "signal":
        number = -returncode
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        parts.append(f"The script was ended by {name}.")
        if number == signal.SIGKILL:
            parts.append("If nobody did that, the machine ran out of memory: `dmesg` tells.")
    elif reason == "exception" and returncode != 0:
        what = f"an exception ({error})" if error else f"exit code {returncode}"
        parts.append(f"The script ended with {what}.")
    if not trained:
        parts.append(
            "No training was seen: no fit, train_on_batch, or loop that updates weights"
            + (" before it ended." if reason in ("signal", "exception") else ".")
        )
    elif reason in ("signal", "exception"):
        parts.append(f"The report covers the {int(seen.get('steps') or 0)} steady steps seen until then.")
    if full:
        parts.append("The capture could not be completed (is the disk full?); what was written is shown.")
    return " ".join(parts)
