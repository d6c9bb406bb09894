"""How much of the time Python's global lock (the GIL) is held, and how much of that by the main thread.

Seen from outside: CPython keeps "locked" and "last holder" in its runtime state, and the parent of a
process may read that memory.  So the watched process does nothing at all; it only says where to look
(`locate`), once.

Knocking on the lock from inside (gilknocker 0.4.2) was tried and left: it times the wait and so misses
short holds (in one run 0.04 where 0.29 was true), and 1 of 23 short runs aborted at exit.

Short runs of this watcher on a loaded two-core machine: a lock held all the time was seen as such; holds
of 0.1 to 1 ms were sometimes seen too rarely, at worst half as often as true.  Why is not established (the
watcher may get a core mostly while the watched process rests): take a low share as a lower bound.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from fitdoctor.model import Gap

_SCAN = 1 << 20
_HOLDER = struct.Struct("@Pi")
_WHAT = "share of time the GIL is held"
_RUN = "run it on Linux with CPython: fitdoctor run SCRIPT"


@dataclass(frozen=True, slots=True)
class GilAddress:
    """Where a process keeps its lock, to be read by another process."""

    pid: int
    address: int
    main: int
    """Identity of the thread that called `locate`."""


def locate() -> GilAddress | Gap:
    """Find this process's lock.  Call it in the process to be watched, on its main thread."""
    if sys.implementation.name != "cpython":
        return Gap(_WHAT, f"{sys.implementation.name} keeps no lock that can be seen", _RUN)
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return Gap(_WHAT, "this Python runs without a GIL", "nothing to do: threads do not wait for each other")
    if not sys.platform.startswith("linux"):
        return Gap(_WHAT, "another process's memory can only be read on Linux", _RUN)
    try:
        return _find()
    except (OSError, ValueError, AttributeError, LookupError) as error:
        return Gap(_WHAT, f"the lock was not found in this Python's runtime state: {error}", _RUN)


def _find() -> GilAddress:
    api = ctypes.pythonapi
    api.PyThreadState_Get.restype = api.PyInterpreterState_Get.restype = ctypes.c_void_p
    thread: int = api.PyThreadState_Get()
    # CPython 3.10 to 3.13 all store, one after the other: switch interval in µs, last holder, locked.
    # While this thread runs it is the holder.
    mark = struct.pack("@LPi", round(sys.getswitchinterval() * 1e6), thread, 1)
    # 3.10 and 3.11 in the runtime state, since 3.12 in the interpreter's.
    starts = (api.PyInterpreterState_Get(), ctypes.addressof(ctypes.c_char.in_dll(api, "_PyRuntime")))
    memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for start in starts:
            data = _read_holding(memory, start)
            if data.count(mark) == 1:
                address = start + data.index(mark) + struct.calcsize("@L")
                return GilAddress(os.getpid(), address, thread)
    finally:
        os.close(memory)
    raise LookupError("its layout is not one of CPython 3.10 to 3.13")


def _read_holding(memory: int, start: int) -> bytes:
    """Read this process's own memory while holding the lock: os.pread would let another thread take it."""
    pread = ctypes.PyDLL(None).pread
    pread.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long)
    pread.restype = ctypes.c_ssize_t
    buffer = ctypes.create_string_buffer(_SCAN)
    count = pread(memory, buffer, _SCAN, start)
    return buffer.raw[: max(0, count)]


MANY = 400
"""After so many looks (ten seconds) a share is known to a few per cent: from then on we look less often."""
RARER = 20


class GilSampler:
    """Watches another process's lock from a thread of this one, about `rate` times a second.

    A look runs no code in the watched process.  `take` returns what was seen
    since the last `take`: {"looks": n, "held": n, "main": n}; {} where nothing could be seen, and then
    `gaps` says why.
    """

    def __init__(
        self,
        where: GilAddress | Gap,
        rate: float = 40.0,
        read: Callable[[int, int], bytes] | None = None,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self.gaps: list[Gap] = []
        self._rate = rate
        self._lock = threading.Lock()
        self._counts = [0, 0, 0]
        self._stop = threading.Event()
        self._wait = wait or self._stop.wait
        self._thread: threading.Thread | None = None
        self._memory: int | None = None
        self._where = where if isinstance(where, GilAddress) else None
        if isinstance(where, Gap):
            self.gaps.append(where)
            return
        if read is None:
            try:
                self._memory = os.open(f"/proc/{where.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                self._refuse(error)
                self._where = None
        self._read = read or self._pread

    def start(self) -> None:
        """Begin to watch."""
        if self._where is not None and self._thread is None:
            self._thread = threading.Thread(target=self.watch, name="fitdoctor-gil", daemon=True)
            self._thread.start()

    def watch(self) -> None:
        """Look until stopped or the process is gone."""
        chance = random.Random(0)  # noqa: S311 - nothing secret about it
        # Looks at exponential distances fall into no rhythm of the program: they see each state as often as
        # it is true.
        looks = 0
        while not self._wait(min(chance.expovariate(self._rate if looks < MANY else self._rate / RARER), 1.0)):
            looks += 1
            if not self.look():
                return

    def look(self) -> bool:
        """Take one look; False when the process is gone or refuses."""
        where = self._where
        if where is None:
            return False
        try:
            holder, locked = _HOLDER.unpack(self._read(where.address, _HOLDER.size))
        except (OSError, struct.error) as error:
            if isinstance(error, PermissionError):
                self._refuse(error)
            return False
        with self._lock:
            self._counts[0] += 1
            self._counts[1] += locked
            self._counts[2] += locked and holder == where.main
        return True

    def take(self) -> dict[str, int]:
        """Return the counts since the last call."""
        with self._lock:
            (looks, held, main), self._counts = self._counts, [0, 0, 0]
        return {"looks": looks, "held": held, "main": main} if looks else {}

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._memory is not None:
            with contextlib.suppress(OSError):
                os.close(self._memory)
            self._memory = None

    def _pread(self, address: int, size: int) -> bytes:
        if self._memory is None:
            raise ProcessLookupError("no longer watching")
        return os.pread(self._memory, size, address)

    def _refuse(self, error: OSError) -> None:
        self.gaps.append(
            Gap(
                _WHAT,
                f"the memory of the training process cannot be read: {error.strerror}",
                "in a container, add --cap-add=SYS_PTRACE; else: sudo sysctl kernel.yama.ptrace_scope=1",
            )
        )
