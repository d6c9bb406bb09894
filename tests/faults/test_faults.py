"""Whatever happens to the script: a clear message, the documented exit code, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from fitdoctor.capture import store
from tests.conftest import Doctor, at_a_terminal

TRAIN = """
import os, sys
import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).standard_normal((640, 8)).astype("float32")
y = x[:, :1]
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("sgd", "mse")
"""


class Case:
    """A small training with something special in it."""

    def __init__(self, doctor: Doctor) -> None:
        self.doctor = doctor

    def script(self, text: str) -> Path:
        return self.doctor.script(TRAIN + textwrap.dedent(text))


@pytest.fixture
def case(doctor: Doctor) -> Case:
    return Case(doctor)


# --- no framework needed ------------------------------------------------------------------------------


def test_a_script_without_training(doctor: Doctor) -> None:
    script = doctor.script("print('hello')\n")
    capped = doctor.run(str(script))
    assert capped.code == 4
    assert capped.out.startswith("hello\n")
    assert "No training was seen" in capped.err + capped.out
    whole = doctor.run("--whole", str(script))
    assert whole.code == 0, "a whole run has the script's own exit code"


def test_a_syntax_error_is_pythons_own(doctor: Doctor) -> None:
    script = doctor.script("def broken(:\n    pass\n")
    plain, seen = doctor.plain(str(script)), doctor.run(str(script))
    assert seen.code == plain.code == 1
    assert plain.err in seen.err
    assert "No training was seen" in seen.err + seen.out


def test_an_exception_has_the_same_traceback(doctor: Doctor) -> None:
    doctor.script("import json\ndef parse(text):\n    return json.loads(text)\n", "helper.py")
    script = doctor.script("import helper\n\ndef main():\n    helper.parse('{')\n\nmain()\n")
    plain, seen = doctor.plain(str(script)), doctor.run(str(script))
    assert seen.code == plain.code == 1
    assert plain.err in seen.err


def test_an_import_error_has_the_same_traceback(doctor: Doctor) -> None:
    doctor.script("import a_module_that_is_not_there\n", "helper.py")
    script = doctor.script("import helper\n")
    plain, seen = doctor.plain(str(script)), doctor.run(str(script))
    assert seen.code == plain.code == 1
    assert plain.err in seen.err


@pytest.mark.parametrize(("argument", "code"), [("7", 7), ("", 0), ("'bye'", 1)])
def test_sys_exit_keeps_its_code(doctor: Doctor, argument: str, code: int) -> None:
    script = doctor.script(f"import sys\nsys.exit({argument})\n")
    seen = doctor.run("--whole", str(script))
    assert seen.code == doctor.plain(str(script)).code == code


def test_the_script_sees_its_own_world(doctor: Doctor) -> None:
    doctor.script("", "pkg/__init__.py")
    text = """
        import os, sys
        print(__name__, os.path.basename(__file__), sys.argv[1:], os.getcwd())
        print(sorted(k for k in os.environ if "FITDOCTOR" in k), os.environ.get("PYTHONPATH"))
        print(sys.path, __spec__ and __spec__.name)
        print(sys.stdin.read())
        import __main__
        print(__main__.__dict__ is globals())
        """
    script = doctor.script(textwrap.dedent(text), "pkg/train.py")
    for command in ([str(script), "--help", "-x", "--", "a b"], ["-m", "pkg.train", "--steps", "3"]):
        plain, seen = (
            subprocess.run(
                [sys.executable, *before, *command],
                cwd=doctor.work,
                env={**doctor.env(), "PYTHONPATH": "some/folder"},
                input="typed",
                capture_output=True,
                text=True,
                timeout=60,
            )
            for before in ([], ["-m", "fitdoctor", "run", "--whole", "--quiet"])
        )
        assert seen.stdout.startswith(plain.stdout), seen.stderr


def test_a_place_that_cannot_be_written_is_said_before_the_script_starts(doctor: Doctor) -> None:
    script = doctor.script("open('started', 'w')\n")
    blocker = doctor.folder / "file"
    blocker.write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "fitdoctor", "run", "--capture", str(blocker / "x.fitdoctor"), str(script)],
        cwd=doctor.work,
        env=doctor.env(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "cannot write the capture" in done.stderr
    assert "--capture" in done.stderr
    assert not (doctor.work / "started").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["missing.py"], "found no file"),
        (["--steps", "0", "train.py"], "--steps"),
        (["--budget", "-1", "train.py"], "--budget"),
        ([], "expected a script"),
    ],
)
def test_a_command_that_cannot_work_says_why(doctor: Doctor, arguments: list[str], expected: str) -> None:
    doctor.script("print()\n")
    done = doctor.run(*arguments)
    assert done.code == 2
    assert expected in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", ["diagnose", "report"])
def test_a_truncated_or_foreign_capture_is_refused(doctor: Doctor, command: str) -> None:
    good = doctor.folder / "good.fitdoctor"
    store.Writer(good).seal()
    for name, data in (("cut", good.read_bytes()[:700]), ("foreign", b"%PDF-1.4" * 500), ("empty", b"")):
        bad = doctor.folder / f"{name}.fitdoctor"
        bad.write_bytes(data)
        done = doctor.plain("-m", "fitdoctor", command, str(bad))
        assert done.code == 2, (name, done.err)
        assert str(bad) in done.err
        assert "Traceback" not in done.err


def test_sigterm_reaches_the_script(doctor: Doctor) -> None:
    script = doctor.script("import signal, sys\nsys.stdout.write('up\\n'); sys.stdout.flush()\nsignal.pause()\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "fitdoctor", "run", "--quiet", "--whole", str(script)],
        cwd=doctor.work,
        env=doctor.env(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "SIGTERM" in err


# --- in the middle of a training ----------------------------------------------------------------------


@pytest.mark.framework
def test_kill_9_leaves_a_report_of_what_was_seen(case: Case) -> None:
    script = case.script(
        """
        class Kill(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                if epoch == 20:
                    import time
                    time.sleep(1.5)  # the capture is flushed once a second; a kill loses at most the last one
                    os.kill(os.getpid(), 9)
        model.fit(x, y, epochs=1000, verbose=0, callbacks=[Kill()])
        """
    )
    ran = case.doctor.run("--whole", str(script), backend="jax")
    assert ran.code == 137
    assert "SIGKILL" in ran.err
    assert "memory" in ran.err
    assert "One step" in ran.out
    assert ran.capture.meta["exit"] == {"code": 137, "signal": 9, "reason": "signal"}
    assert len(ran.capture.steps[1].step) > 200
    assert not list(ran.capture_path.parent.glob("*-wal")), "one plain file is left"


@pytest.mark.framework
def test_ctrl_c_ends_the_script_and_shows_the_report(case: Case) -> None:
    script = case.script(
        """
        class Say(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                if epoch == 5:
                    print("running", flush=True)
        try:
            model.fit(x, y, epochs=100_000, verbose=0, callbacks=[Say()])
        finally:
            print("cleaned up", flush=True)
        """
    )
    capture = case.doctor.folder / "c.fitdoctor"
    words = ("run", "--whole", "--capture", str(capture), str(script))
    process = at_a_terminal(*words, cwd=case.doctor.work, env=case.doctor.env("jax"))
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "cleaned up" in out
    assert "One step" in out
    assert "KeyboardInterrupt" in err


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_control_c_during_an_experiment_gives_the_report_of_what_is_known(case: Case, backend: str) -> None:
    script = case.script("model.fit(x, y, epochs=100_000, verbose=0)")
    capture = case.doctor.folder / "c.fitdoctor"
    words = ("run", "--budget", "300", "--capture", str(capture), str(script))
    process = at_a_terminal(*words, cwd=case.doctor.work, env=case.doctor.env(backend))
    assert process.stderr is not None
    told = ""
    for line in process.stderr:
        told += line
        if "experiment 2 of" in line:
            break
    else:
        pytest.fail(f"no second experiment was begun:\n{told}")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "One step" in out
    assert "Traceback" not in err
    found = store.read(capture)
    assert found.trials, "the first experiment is known"
    assert any(gap.what == "the rest of the experiments" for gap in found.gaps)


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_an_exception_in_a_callback_has_the_same_traceback(case: Case, backend: str) -> None:
    script = case.script(
        """
        class Break(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                if batch == 15:
                    raise ValueError("broken on purpose")
        model.fit(x, y, epochs=3, verbose=0, callbacks=[Break()])
        """
    )
    plain = case.doctor.plain(str(script), backend=backend)
    seen = case.doctor.run(str(script), backend=backend)
    assert seen.code == plain.code == 1
    trace = plain.err[plain.err.index("Traceback") :]
    assert trace in seen.err
    assert "One step" in seen.out


@pytest.mark.framework
def test_running_out_of_memory_is_the_scripts_own_error(case: Case) -> None:
    script = case.script(
        """
        import resource
        class Hoard(keras.callbacks.Callback):
            def on_epoch_end(self, epoch, logs=None):
                if epoch == 3:
                    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
                    resource.setrlimit(resource.RLIMIT_AS, (used + 200_000_000, used + 200_000_000))
                    self.kept = [np.ones(50_000_000) for _ in range(100)]
        model.fit(x, y, epochs=10, verbose=0, callbacks=[Hoard()])
        """
    )
    ran = case.doctor.run("--whole", str(script), backend="jax")
    assert ran.code == 1
    assert "MemoryError" in ran.err
    assert "One step" in ran.out


@pytest.mark.framework
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_failing_probe_lets_go_and_training_goes_on(case: Case, backend: str) -> None:
    script = case.script(
        """
        class Sabotage(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                from fitdoctor.probes import recorder
                current = recorder.current()
                if epoch == 2 and current is not None:
                    def broken(*args):
                        raise RuntimeError("a probe broke")
                    current.step = broken
        history = model.fit(x, y, epochs=5, verbose=0, callbacks=[Sabotage()])
        print([float(v).hex() for v in history.history["loss"]])
        """
    )
    plain = case.doctor.plain(str(script), backend=backend)
    assert plain.code == 0, plain.err
    seen = case.doctor.run("--whole", str(script), backend=backend)
    assert seen.code == 0
    assert seen.out.startswith(plain.out)
    assert "Traceback" not in seen.err
    assert any("a probe broke" in gap.reason for gap in seen.capture.gaps)
    assert "a probe broke" in seen.out
    assert seen.capture.steps[1].count.sum() == 40


@pytest.mark.framework
def test_a_full_disk_ends_the_capture_not_the_training(case: Case) -> None:
    script = case.script(
        """
        import resource, signal
        class Fill(keras.callbacks.Callback):
            def on_epoch_begin(self, epoch, logs=None):
                if epoch == 30:  # from here on no file can grow: what a full disk does to a writer
                    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
                if epoch == 60:
                    import time
                    time.sleep(1.5)  # let a flush meet the full disk
        history = model.fit(x, y, epochs=90, verbose=0, callbacks=[Fill()])
        print(len(history.history["loss"]))
        """
    )
    ran = case.doctor.run("--whole", str(script), backend="jax")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("90\n")
    assert "Traceback" not in ran.err
    assert "disk" in ran.err


@pytest.mark.framework
def test_workers_are_not_observed_and_do_not_outlive_the_run(case: Case) -> None:
    script = case.script(
        """
        import multiprocessing
        def work(n):
            return n * n, "fitdoctor.capture.session" in sys.modules
        class Data(keras.utils.PyDataset):
            def __len__(self):
                return 1000
            def __getitem__(self, i):
                return x[:32], y[:32]
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                print(pool.map(work, range(3)))
            model.fit(Data(workers=2, use_multiprocessing=True), epochs=2, verbose=0)
        """
    )
    ran = case.doctor.run("--steps", "50", str(script), backend="torch")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("[(0, False), (1, False), (4, False)]")
    assert [call.kind for call in ran.capture.calls] == ["fit"]
    assert ran.capture.calls[0].info["workers"] == 2
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        left = [p for p in psutil.process_iter(["cmdline"]) if str(script) in " ".join(p.info["cmdline"] or [])]
        if not left:
            break
        time.sleep(0.1)
    assert not left
