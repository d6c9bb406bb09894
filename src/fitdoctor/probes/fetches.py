"""Objects fetched over HTTP while a training runs (boto3, requests, urllib3): how many, how large, how long waited for.

All of them wait for their answer in `http.client.HTTPConnection.getresponse`.  Sizes and times are kept, never names.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fitdoctor.model import Site
from fitdoctor.probes.calls import ActiveCall
from fitdoctor.probes.install import ImportWatch, Patches, hide, user_site
from fitdoctor.probes.steps import Tracker


@dataclass(slots=True)
class _Totals:
    call: ActiveCall
    site: Site | None
    count: int = 0
    bytes: int = 0
    wait_ns: int = 0
    any_ns: int = 0
    waiting: int = 0
    since_ns: int = 0


class FetchProbe:
    """Hook on the wait for an answer."""

    def __init__(self, tracker: Tracker, patches: Patches) -> None:
        self.tracker = tracker
        self.recorder = tracker.recorder
        self.patches = patches
        self._totals: dict[int, _Totals] = {}
        self._lock = threading.Lock()
        self.recorder.on_flush.append(self._save)

    def attach(self, watch: ImportWatch) -> None:
        """Wait for Python's HTTP client."""
        watch.when("http.client", self._wrap)

    def _wrap(self) -> None:
        self.patches.wrap(sys.modules["http.client"].HTTPConnection, "getresponse", self._timed)

    def _timed(self, original: Any) -> Callable[..., Any]:
        tracker, recorder = self.tracker, self.recorder

        def getresponse(connection: Any, *args: Any, **kwargs: Any) -> Any:
            call = tracker.current
            if call is None or not recorder.live:
                return original(connection, *args, **kwargs)
            totals = self._begin(call)
            response = None
            start = recorder.clock()
            try:
                response = original(connection, *args, **kwargs)
                return response
            except BaseException as error:
                hide(error)
                raise
            finally:
                self._end(totals, start, getattr(response, "length", None))

        return getresponse

    def _begin(self, call: ActiveCall) -> _Totals:
        with self._lock:
            totals = self._totals.get(call.id)
            if totals is None:
                totals = self._totals[call.id] = _Totals(call, user_site(3))
            if totals.waiting == 0:
                totals.since_ns = self.recorder.clock()
            totals.waiting += 1
            return totals

    def _end(self, totals: _Totals, start_ns: int, length: int | None) -> None:
        with self._lock:
            now = self.recorder.clock()
            totals.count += 1
            totals.bytes += length or 0
            totals.wait_ns += now - start_ns
            totals.waiting -= 1
            if totals.waiting == 0:
                totals.any_ns += now - totals.since_ns

    def _save(self) -> None:
        for totals in list(self._totals.values()):
            site = totals.site
            totals.call.info["fetches"] = {
                "count": totals.count,
                "bytes": totals.bytes,
                "wait_ns": totals.wait_ns,
                "any_ns": totals.any_ns,
                "site": [site.path, site.line] if site else None,
            }
            self.tracker.save(totals.call)
