"""Experiments on elements with a real framework: what they find in pipelines of each kind, and what they leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Doctor

SCRIPT = Path(__file__).parent / "picture_experiments.py"
LINES = SCRIPT.read_text().splitlines()


def tried(doctor: Doctor, *kinds: str) -> dict[str, Any]:
    ran = doctor.plain(str(SCRIPT), *kinds, backend="tensorflow")
    assert ran.code == 0, ran.err
    seen = dict(json.loads(ran.out.strip().splitlines()[-1]))
    assert all(seen[kind]["differs"] == [] for kind in kinds)
    return seen


def line(text: str) -> int:
    return next(number for number, each in enumerate(LINES, 1) if text in each)


@pytest.mark.framework
def test_pictures_that_are_decoded_and_resized(doctor: Doctor) -> None:
    seen = tried(doctor, "direct", "png", "directory")
    direct = seen["direct"]["trials"]
    assert set(direct) >= {"decoded smaller", "shrunk beforehand"}, seen["direct"]["gaps"]
    assert direct["rehearsed: shrunk beforehand"]["whole"], "short epochs of the training itself"
    found = direct["decoded smaller"]
    assert (found["decoded_pixels"], found["shrunk_pixels"], found["ratio"], found["rows"]) == (240 * 320, 1024, 4, 8)
    assert 0 < found["difference"] < 0.05
    assert (Path(found["path"]).name, found["line"]) == (SCRIPT.name, line("return tf.io.decode_jpeg(")), (
        "the line of a function that the map calls"
    )
    assert seen["direct"]["gaps"]["pictures shrunk first"] == "nothing is done to its pictures before they are shrunk"
    assert seen["traced"] == 1, "the user's function is not traced again"

    # Two maps, one after the other; PNG has no way to be decoded smaller.
    png = {name for name in seen["png"]["trials"] if not name.startswith("rehearsed: ")}
    assert png == {"shrunk beforehand", "shrunk first"}, seen["png"]["gaps"]
    assert seen["png"]["trials"]["shrunk beforehand"]["decode"] == "DecodePng"
    assert seen["png"]["trials"]["shrunk first"]["line"] == line("antialias=True)")

    inside = seen["directory"]["trials"]["decoded smaller"]
    assert inside["decode"] == "DecodeImage"
    assert inside["line"] == line("image_dataset_from_directory("), "the user's line, not Keras's"


@pytest.mark.framework
def test_work_on_pictures_before_they_are_shrunk(doctor: Doctor) -> None:
    seen = tried(doctor, "recoloured", "cropped", "cached", "small")
    found = seen["recoloured"]["trials"]["shrunk first"]
    assert {"AdjustHue", "AdjustSaturation"} <= set(found["work"])
    assert found["line"] == line("picture = tf.image.random_saturation") + 1
    assert "rehearsed: shrunk first" in seen["recoloured"]["trials"], seen["recoloured"]["gaps"]
    cropped = seen["cropped"]["trials"]
    assert cropped["decoded smaller"]["window"] is True, seen["cropped"]["gaps"]
    assert "rehearsed: decoded smaller" in cropped, "only the window is decoded, the rest is the user's own"
    assert "shrunk first" not in cropped
    assert "a cache keeps them" in seen["cached"]["gaps"]["pictures decoded smaller"]
    assert "neither resized nor cropped" in seen["small"]["gaps"]["pictures decoded smaller"]


@pytest.mark.framework
def test_caches_and_shuffles(doctor: Doctor) -> None:
    seen = tried(doctor, "frozen", "fixed", "shuffled", "indices")
    frozen = seen["frozen"]["trials"]["drawn anew"]
    assert frozen["elements"] == 12
    assert frozen["differ"] > 0
    assert frozen["differ_behind_cache"] == 0
    cache = next(each for each in seen["frozen"]["marks"] if each["op"] == "Cache")
    assert cache["built"][1] == line('"frozen": lambda')
    assert seen["fixed"]["trials"]["drawn anew"]["differ"] == 0, "a fixed seed draws the same"
    shuffled = seen["shuffled"]["trials"]["shuffle filled sooner"]
    assert (shuffled["buffer"], shuffled["element_bytes"]) == (96, 32 * 32 * 3 * 4 + 4)
    assert shuffled["line"] == line('"shuffled": lambda')
    assert "smaller" not in shuffled
    assert seen["indices"]["trials"]["shuffle filled sooner"]["smaller"] == 32


@pytest.mark.framework
def test_padded_batches(doctor: Doctor) -> None:
    seen = tried(doctor, "padded", "front", "one length", "equal")
    for kind, front in (("padded", False), ("front", True)):
        trials = seen[kind]["trials"]
        assert set(trials) == {"shorter batches", "longer batches"}, seen[kind]["gaps"]
        short, long = (trials[f"{name} batches"] for name in ("shorter", "longer"))
        assert short["sequences"] == 96
        assert short["real"] < 0.3 * short["padded"]
        assert short["front"] is front
        assert short["length"] < 12 <= long["length"] <= 120
    assert "exactly 120 positions" in seen["one length"]["gaps"]["batches of like lengths"]
    assert seen["equal"]["trials"] == {}
