"""Which lines run while something else is waited for."""

from __future__ import annotations

import sys
import threading
from typing import Any

from fitdoctor.lab.host_lines import HostLines


def clock(*times: int) -> Any:
    return iter(times).__next__


def test_lines_of_the_working_thread_are_weighed_by_time() -> None:
    lines = HostLines(clock(10, 40))
    assert lines.look({1: sys._getframe()}, 1, 0) == 10
    assert lines.look({}, 1, 10) == 40
    (told,) = lines.detail()["lines"]
    assert (told["symbol"], told["share"]) == ("test_lines_of_the_working_thread_are_weighed_by_time", 0.25)
    assert told["path"] == __file__
    assert told["line"] > 0
    assert len(told["from"]) == 2


def test_other_threads_count_only_where_a_graph_called_them_back() -> None:
    lines = HostLines(clock(10, 20))

    def function(since: int) -> None:
        lines.look({2: sys._getframe()}, 1, since)

    function(0)
    assert lines.detail()["lines"] == []
    text, path = "def call_back(function):\n    return function(10)\n", "/x/tensorflow/python/ops/script_ops.py"
    scope: dict[str, Any] = {}
    exec(compile(text, path, "exec"), scope)
    scope["call_back"](function)
    (told,) = lines.detail()["lines"]
    assert (told["symbol"], told["share"]) == ("function", 0.5)


def test_the_work_runs_on_the_calling_thread_and_everything_is_put_back() -> None:
    lines, before = HostLines(), sys.getswitchinterval()
    threads = threading.active_count()
    assert lines.watch(lambda: float(threading.get_ident())) == threading.get_ident()
    assert sys.getswitchinterval() == before
    assert threading.active_count() == threads
