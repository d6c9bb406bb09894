"""The documentation as a site: it builds strictly, is complete, and asks nobody for anything."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import yaml

import fitdoctor
from fitdoctor.capture import store
from fitdoctor.cli.main import build_parser
from fitdoctor.rules import Rule, all_rules
from tests.conftest import Doctor

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(ROOT / "tools" / "site"))

import hooks  # noqa: E402
import root_pages  # noqa: E402
import rule_pages  # noqa: E402

SECTIONS = ["What is wrong", "How it is established", "What to do", "When it is not worth it", "Example"]


@dataclass
class Page(HTMLParser):
    """What a built page points to, and what can be pointed to in it."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name == "href" and tag == "a" and value:
                self.links.append(value)
            elif value and (name in ("src", "srcset", "data", "poster") or (name == "href" and tag != "a")):
                self.loaded.append(value)


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text("utf-8"))
    return page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


def named_in_nav(items: Any) -> Iterator[str]:
    for item in items:
        for value in item.values() if isinstance(item, dict) else [item]:
            if isinstance(value, str):
                yield value
            else:
                yield from named_in_nav(value)


def test_every_page_is_in_the_navigation() -> None:
    nav = list(named_in_nav(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))
    assert len(nav) == len(set(nav))
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    made = set(hooks.generated()) - {rule_pages.place(rule) for rule in all_rules()}
    assert not written & made, "a page is written by hand and by tools/site"
    assert set(nav) == written | made


def test_every_rule_has_its_page(site: Path) -> None:
    index = read(site / "rules" / "index.html")
    for rule in all_rules():
        text = (site / "rules" / f"{rule.name}.html").read_text("utf-8")
        assert f"{rule.name}.html" in index.links
        assert rule.family in text
        for title in SECTIONS:
            assert f'id="{title.lower().replace(" ", "-")}"' in text, f"{rule.name}: {title}"
    assert len(list((site / "rules").glob("*.html"))) == len(all_rules()) + 1


def test_the_example_of_every_rule_is_code() -> None:
    pages = hooks.generated()
    for rule in all_rules():
        example = pages[rule_pages.place(rule)].split("## Example")[1]
        assert re.search(r"^```(python|console)\n\S", example, re.MULTILINE), rule.name


def test_a_new_rule_needs_no_list(tmp_path: Path) -> None:
    text = "Too slow.\n\n## What is wrong\n\nSee python-map, or\n`retracing`.\n\n## Example\n\n    a = 1\n\n    b = 2\n"
    rule = Rule("brand-new", "input", "Too slow", text, *[None] * 3)  # type: ignore[arg-type]
    page = rule_pages.page(rule, [*all_rules(), rule], tmp_path)
    assert page.startswith("# brand-new\n\n**Too slow.**")
    assert "See [python-map](python-map.md), or\n[`retracing`](retracing.md)." in page
    assert page.endswith("## Example\n\n```python\na = 1\n\nb = 2\n```\n")
    assert "| [brand-new](brand-new.md) | Too slow |" in rule_pages.index([rule])


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    text = re.sub(r"<[^>]+>", "", (site / "cli.html").read_text("utf-8"))
    _, commands = build_parser()
    for name in commands:
        assert f"fitdoctor {name}" in text
    assert {"--budget", "--redact", "--may-change"} <= set(re.findall(r"--[a-z-]+", text))


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    page = read(site / "api.html")
    for name in set(fitdoctor.__all__) - {"__version__"}:
        assert f"fitdoctor{name.lower()}" in page.ids, name


def test_links_resolve(site: Path) -> None:
    pages = {path: read(path) for path in site.rglob("*.html") if path.name != "404.html"}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            lost = parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids
            if not target.exists() or (lost and not parts.fragment.startswith("__")):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for path in site.rglob("*.html"):
        away = [each for each in read(path).loaded if each.startswith(("http:", "https:", "//"))]
        assert not away, f"{path.relative_to(site)} loads {away}"
    for path in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        found = re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"']*", path.read_text("utf-8"))
        assert not found, f"{path.relative_to(site)} loads {found}"


def test_the_start_page_is_the_readme_and_search_is_there(site: Path) -> None:
    text = (site / "index.html").read_text("utf-8")
    assert "Why is my Keras training slow?" in text
    assert "assets/run.svg" in text
    assert "python-map" in (site / "search" / "search_index.json").read_text("utf-8")


def test_links_of_the_readme_are_moved() -> None:
    moved = root_pages.moved(
        "[a](docs/b.md#c) [log](CHANGELOG.md) [S.md](S.md) [s](src/s.json) [w](https://w) ![p](docs/p.svg)"
    )
    assert moved == "[a](b.md#c) [log](changelog.md) `S.md` s (`src/s.json`) [w](https://w) ![p](p.svg)"


def blocks(page: str, *kinds: str) -> list[str]:
    """Return the fenced blocks of these kinds."""
    found = re.findall(r"^```(\w+)\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [text for kind, text in found if kind in kinds]


def commands_in(text: str) -> list[list[str]]:
    """Return what is given to fitdoctor in a block that is shown but not run here."""
    spoken = re.findall(r"(?:^|[\s!\"'])fitdoctor ([a-z]+(?: [^\n;#&']*)?)", text)
    return [shlex.split(words.strip()) for words in spoken]


@pytest.mark.parametrize("page", sorted(path.relative_to(DOCS).as_posix() for path in (DOCS / "guides").glob("*.md")))
def test_commands_of_the_guides_are_understood(page: str) -> None:
    parser, commands = build_parser()
    for text in blocks(page, "bash", "yaml", "text"):
        for name, *rest in commands_in(text):
            split = getattr(commands[name], "split", None)
            parser.parse_args([name, *(split(rest)[0] if split else rest)])


def test_the_manifest_of_the_kubernetes_guide_is_one() -> None:
    (text,) = blocks("guides/kubernetes.md", "yaml")
    job = yaml.safe_load(text)
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {each["name"] for each in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}
    assert "fitdoctor run --capture" in container["args"][0]


@pytest.mark.parametrize("page", ["guides/slurm.md", "guides/ec2.md", "guides/kubernetes.md"])
def test_shell_scripts_of_the_guides_are_well_formed(page: str) -> None:
    for text in blocks(page, "bash"):
        done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.framework
def test_the_batch_script_of_the_slurm_guide_runs(doctor: Doctor) -> None:
    """As Slurm would start it, with a stand-in for `srun` that runs what it is given."""
    script = next(text for text in blocks("guides/slurm.md", "bash") if "#SBATCH" in text)
    tools, submitted, node = (doctor.folder / name for name in ("bin", "submitted", "node"))
    for folder in (tools, submitted, node, doctor.work / "venv" / "bin"):
        folder.mkdir(parents=True)
    programs = {
        "srun": '#!/bin/sh\nexec "$@"\n',
        "fitdoctor": f'#!/bin/sh\nexec "{sys.executable}" -m fitdoctor "$@"\n',
    }
    for name, text in programs.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    (doctor.work / "venv" / "bin" / "activate").write_text("")
    doctor.script(CONTAINER_SCRIPT)
    slurm = {"SLURM_JOB_ID": "4711", "SLURM_SUBMIT_DIR": str(submitted), "TMPDIR": str(node)}
    env = doctor.env("jax", **slurm, SM_MODEL_DIR=str(doctor.folder / "model"))
    done = subprocess.run(
        ["bash", "-c", script.replace("fitdoctor run", "fitdoctor run --budget 15")],
        cwd=doctor.work,
        env={**env, "PATH": f"{tools}{os.pathsep}{env['PATH']}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert store.read(submitted / "why-slow-4711.fitdoctor").calls
    assert json.loads((doctor.work / "why-slow-4711.json").read_text())["schema"] == "fitdoctor.report/1"


CONTAINER_SCRIPT = """
import argparse
import os

import keras
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
args = parser.parse_args()
x = np.random.rand(6400, 8)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x[:, :1], epochs=args.epochs, verbose=0)
os.makedirs(os.environ["SM_MODEL_DIR"], exist_ok=True)
model.save(os.path.join(os.environ["SM_MODEL_DIR"], "model.keras"))
"""


@pytest.mark.framework
def test_the_entry_point_of_the_sagemaker_guide_runs(doctor: Doctor) -> None:
    """In folders like those of the container, with SageMaker's variables; the arguments are hyperparameters."""
    (entry,) = blocks("guides/sagemaker.md", "python")
    model, out, local = (doctor.folder / "ml" / name for name in ("model", "output/data", "tmp"))
    for folder in (model, out, local):
        folder.mkdir(parents=True)
    entry = entry.replace("/tmp/", f"{local}/").replace('"run", ', '"run", "--budget", "15", ')
    doctor.script(entry, "doctor.py")
    doctor.script(CONTAINER_SCRIPT)
    done = doctor.plain(
        "doctor.py",
        "--epochs",
        "50",
        backend="jax",
        SM_MODEL_DIR=str(model),
        SM_OUTPUT_DATA_DIR=str(out),
        SM_HPS='{"epochs": 50}',
    )
    assert done.code == 0, done.err[-2000:]
    assert {path.name for path in out.iterdir()} == {"run.fitdoctor", "report.json"}
    assert "One step" in done.out
    assert list(model.iterdir()) == [], "a diagnosis saves no model"


@pytest.mark.framework
def test_the_function_of_the_ray_guide_runs_beside_the_main_thread(doctor: Doctor) -> None:
    (function,) = blocks("guides/ray.md", "python")
    program = (
        f"{function}\nimport threading\n"
        "worker = threading.Thread(target=lambda: print(train_loop({'capture': 'seen.fitdoctor'})))\n"
        "worker.start()\nworker.join()\n"
    )
    done = doctor.plain("-c", program, backend="jax")
    assert done.code == 0, done.err[-2000:]
    assert done.out.strip()
    assert store.read(doctor.work / "seen.fitdoctor").calls
