"""Watching from beside: the host, the GPUs and the GIL, sampled by the launcher while the script runs.

The observed process does nothing for it but say, once, where its GIL is.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from pathlib import Path
from typing import Any

from fitdoctor.capture import store
from fitdoctor.model import Gap
from fitdoctor.probes.device import DeviceSampler
from fitdoctor.probes.gil import GilAddress, GilSampler
from fitdoctor.probes.host import HostSampler

EVERY_SECONDS = 1.0


class Beside:
    """Samples one child process into its capture."""

    def __init__(self, pid: int, path: Path) -> None:
        self._path = path
        self._host = HostSampler(pid)
        self._device = DeviceSampler()
        self._gil: GilSampler | None = None
        self._gaps: set[Gap] = set()
        self._next = time.monotonic() + EVERY_SECONDS
        self._writer: store.Writer | None = store.Writer.reopen(path)

    def look(self, meta: dict[str, Any]) -> None:
        """Take a sample if one is due; a capture that cannot be written any more is left alone."""
        if self._gil is None and meta.get("gil"):
            where = meta["gil"]
            self._gil = GilSampler(GilAddress(**where) if "address" in where else Gap(**where))
            self._gil.start()
        now = time.monotonic()
        if now < self._next or self._writer is None:
            return
        self._next = now + EVERY_SECONDS
        values = self._host.sample()
        if not values:
            return
        gpus = self._device.sample()
        if gpus:
            values["gpus"] = gpus
        if self._gil is not None and (seen := self._gil.take()):
            values["gil"] = seen
        rows: dict[str, list[tuple[Any, ...]]] = {"host": [(time.perf_counter_ns(), json.dumps(values))]}
        gaps = {*self._host.gaps, *self._device.gaps, *(self._gil.gaps if self._gil else ())} - self._gaps
        if gaps:
            self._gaps |= gaps
            rows["gaps"] = [(gap.what, gap.reason, gap.remedy) for gap in gaps]
        try:
            self._writer.write(rows)
        except sqlite3.Error:
            self.close()

    def close(self) -> None:
        """Stop sampling."""
        if self._gil is not None:
            self._gil.stop()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
        with contextlib.suppress(Exception):
            self._device.close()
