from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fitdoctor.probes import install
from fitdoctor.probes.install import ImportWatch, Patches, code_site, is_users, user_site
from fitdoctor.probes.recorder import Recorder


class Nowhere:
    def write(self, rows: object) -> None: ...


@pytest.fixture
def recorder() -> Recorder:
    return Recorder(Nowhere(), 0)


def test_patches_put_everything_back(recorder: Recorder) -> None:
    class Thing:
        def work(self) -> int:
            return 1

    original = Thing.work
    patches = Patches(recorder)
    assert patches.wrap(Thing, "work", lambda f: lambda self: f(self) + 1)
    assert Thing().work() == 2
    patches.undo()
    assert Thing.work is original


def test_a_missing_name_is_a_gap_not_a_crash(recorder: Recorder) -> None:
    class Thing: ...

    assert not Patches(recorder).wrap(Thing, "gone", lambda f: f)
    assert any("Thing.gone" in what for what, _ in recorder._gaps)


def test_the_watch_calls_after_the_import_and_leaves_no_trace(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "watched_module.py").write_text("value = 41\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    watch = ImportWatch(recorder)
    seen: list[int] = []
    watch.when("watched_module", lambda: seen.append(sys.modules["watched_module"].value))
    watch.install()
    try:
        import watched_module  # type: ignore[import-not-found]
    finally:
        watch.uninstall()
    assert seen == [41]
    assert type(watched_module.__loader__).__name__ == "SourceFileLoader"
    assert watched_module.__spec__.loader is watched_module.__loader__
    watch.when("watched_module", lambda: seen.append(0))
    assert seen == [41, 0], "a module that is there is reported at once"


def test_a_hook_that_raises_on_import_is_a_gap(recorder: Recorder) -> None:
    def broken() -> None:
        raise RuntimeError("no")

    ImportWatch(recorder).when("sys", broken)
    assert recorder.live
    assert recorder._gaps


def test_our_frames_are_dropped_from_tracebacks() -> None:
    namespace: dict[str, object] = {"hide": install.hide}
    code = textwrap.dedent(
        """
        def wrapper(function):
            try:
                return function()
            except BaseException as error:
                hide(error)
                raise
        """
    )
    exec(compile(code, install.OWN_FOLDER + "fake.py", "exec"), namespace)

    def users() -> None:
        raise KeyError("x")

    try:
        namespace["wrapper"](users)  # type: ignore[operator]
    except KeyError as error:
        install.strip(error)
        files = []
        tb = error.__traceback__
        while tb:
            files.append(tb.tb_frame.f_code.co_filename)
            tb = tb.tb_next
        assert not any(file.startswith(install.OWN_FOLDER) for file in files)
        assert files


def test_users_code_is_told_from_libraries() -> None:
    assert is_users(__file__)
    assert not is_users(pytest.__file__)
    assert not is_users(subprocess.__file__)
    assert not is_users(install.__file__)
    assert not is_users("<string>")


def test_sites_point_at_the_users_line() -> None:
    site = user_site(1)
    assert site is not None
    assert site.path == __file__
    assert site.symbol == "test_sites_point_at_the_users_line"
    found = code_site(test_sites_point_at_the_users_line)
    assert found is not None
    assert found.line == test_sites_point_at_the_users_line.__code__.co_firstlineno
    assert code_site(print) is None
