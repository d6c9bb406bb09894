"""Pictures in a bucket far away: diagnosed, fixed, and turned into shards."""

from __future__ import annotations

import concurrent.futures
import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from fitdoctor.facts.source_tree import SourceFile, SourceTree
from fitdoctor.fixes.document import opened
from fitdoctor.fixes.render import edited
from fitdoctor.model import Cost, Interval, Site
from fitdoctor.rules import all_rules
from tests.conftest import Doctor
from tests.shard.conftest import fingerprint, held
from tests.stores.conftest import BUCKET, LARGE_SIZE, LATENCY_MS, THIN, Store

HERE = Path(__file__).parent


def report(doctor: Doctor, env: dict[str, str], script: str, backend: str, *words: str) -> dict[str, Any]:
    """Diagnose a script."""
    path = doctor.folder / "report.json"
    options = ("--quiet", "--budget", "10", "--json", str(path), str(HERE / script))
    ran = doctor.run(*options, *words, backend=backend, lab=True, **env)
    assert ran.code == 0, ran.err
    return dict(json.loads(path.read_text()))


def fixed(doctor: Doctor, script: str, rule: str, at: str, **evidence: object) -> Path:
    """Write a script as the edit of a rule makes it; what the lab finds best in ten seconds is not asked here."""
    text = (HERE / script).read_text()
    line = next(number for number, each in enumerate(text.splitlines(), 1) if at in each)
    cost = Cost(Interval.exact(0.5), "", Site(script, line), evidence=evidence)
    fix = next(each for each in all_rules() if each.name == rule).fix(cost, SourceTree((SourceFile(script, text),)))
    assert fix is not None
    assert fix.edits
    return doctor.script(edited({script: opened(text.encode())}, fix.edits)[script].data.decode(), script)


def trained_in(doctor: Doctor, store: Store, script: Path, backend: str) -> float:
    """Train for one epoch."""
    ran = doctor.plain(str(script), "1", backend=backend, **store.env)
    assert ran.code == 0, ran.err
    return float(re.findall(r"trained in ([\d.]+) s", ran.out)[0])


def test_far_is_far(store: Store, pictures: dict[str, bytes]) -> None:
    """The proxy delays every request, on a connection that is kept as well."""

    def ask(base: str) -> float:
        start = time.perf_counter()
        with urllib.request.urlopen(f"{base}/moto-api/data.json") as answer:
            answer.read()
        return time.perf_counter() - start

    near, far = (min(ask(base) for _ in range(5)) for base in (store.near, store.far))
    assert far > near + 0.8 * LATENCY_MS / 1e3


@pytest.mark.framework
def test_tf_data_from_a_bucket(doctor: Doctor, store: Store, pictures: dict[str, bytes]) -> None:
    found = report(doctor, store.env, "train_tfdata.py", "tensorflow")
    first = found["findings"][0]
    assert first["rule"] in ("starved-reads", "small-files"), found["headline"]
    # Twenty milliseconds a picture, one after the other: most of it can go; wide margins, others use the machine too.
    assert first["saving"]["low"] > 0.15
    judged = {each["rule"]: each for each in found["findings"]}
    assert judged["small-files"]["evidence"]["objects_per_step"] == pytest.approx(8, rel=0.2)
    assert judged["small-files"]["evidence"]["wait_ms"] > LATENCY_MS
    assert Path(judged["small-files"]["site"]["path"]).name == "train_tfdata.py"
    code = ".map(load, num_parallel_calls=16, use_unbounded_threadpool=True)"
    slow = trained_in(doctor, store, HERE / "train_tfdata.py", "tensorflow")
    fast = trained_in(
        doctor, store, fixed(doctor, "train_tfdata.py", "starved-reads", ".map(", code=code), "tensorflow"
    )
    assert fast < slow / 1.3


@pytest.mark.framework
def test_a_pydataset_from_a_bucket(doctor: Doctor, store: Store, pictures: dict[str, bytes]) -> None:
    found = report(doctor, store.env, "train_pydataset.py", "jax")
    first = found["findings"][0]
    assert first["rule"] in ("idle-workers", "small-files"), found["headline"]
    judged = {each["rule"] for each in found["findings"]} | {each["rule"] for each in found["unknown"]}
    assert {"idle-workers", "small-files"} <= judged, "neither is waved through"
    assert first["saving"]["low"] > 0.15
    slow = trained_in(doctor, store, HERE / "train_pydataset.py", "jax")
    fast = trained_in(doctor, store, fixed(doctor, "train_pydataset.py", "idle-workers", "= Photos(", workers=8), "jax")
    assert fast < slow / 1.3


def test_a_thin_line_is_thin(store: Store, large_pictures: dict[str, bytes]) -> None:
    """Bytes come no faster than allowed, however many ask for them at once."""
    objects, client = list(large_pictures)[:8], store.client(store.thin)

    def fetch(key: str) -> int:
        return len(client.get_object(Bucket=BUCKET, Key=key)["Body"].read())

    for at_once in (1, 8):
        start = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
            size = sum(pool.map(fetch, objects))
        took = time.perf_counter() - start
        assert size == sum(len(large_pictures[key]) for key in objects)
        assert took > 0.95 * size / THIN


@pytest.mark.framework
def test_more_reads_do_not_widen_a_thin_line(doctor: Doctor, store: Store, large_pictures: dict[str, bytes]) -> None:
    """The line is the bound: what hides round trips is not sold as a remedy."""
    env = {**store.env, "AWS_ENDPOINT_URL": store.thin}
    found = report(doctor, env, "train_tfdata.py", "tensorflow", "40", "large/", str(LARGE_SIZE))
    promised = {each["rule"]: each["saving"]["mid"] for each in found["findings"]}
    for rule in ("starved-reads", "small-files", "serial-map"):
        assert promised.get(rule, 0.0) < 0.4, promised


def shard(folder: Path, *words: str) -> list[str]:
    program = [sys.executable, "-m", "fitdoctor", "shard"]
    return [*program, f"s3://{BUCKET}/train", str(folder), "--shard-size", "60KB", *words]


def test_a_bucket_becomes_shards(doctor: Doctor, store: Store, pictures: dict[str, bytes]) -> None:
    out = doctor.folder / "shards"
    done = subprocess.run(shard(out), env=doctor.env(**store.env), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert dict(held(out)) == {key.removeprefix("train/").encode(): data for key, data in pictures.items()}


def test_a_bucket_becomes_shards_though_it_is_killed(doctor: Doctor, store: Store, pictures: dict[str, bytes]) -> None:
    whole, out = doctor.folder / "whole", doctor.folder / "shards"
    env = doctor.env(**store.env)
    subprocess.run(shard(whole), env=env, capture_output=True, timeout=120, check=True)
    child = subprocess.Popen(shard(out, "--jobs", "2"), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not list(out.glob("part-*")) and time.monotonic() < until:
        time.sleep(0.02)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    subprocess.run(shard(out), env=env, capture_output=True, timeout=120, check=True)
    assert fingerprint(out) == fingerprint(whole)


def test_a_store_that_cannot_be_reached_is_said(doctor: Doctor, store: Store) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fitdoctor", "shard", "s3://nothing-of-the-kind/x", str(doctor.folder / "shards")],
        env=doctor.env(**store.env), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
