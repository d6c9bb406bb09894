"""The same script on every Keras backend that is installed, in turns, each time in a process of its own.

Only the environment says which backend to take (`KERAS_BACKEND`), so a script that sets it itself, or that calls one
framework by name, cannot be compared; that is said, not guessed.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fitdoctor.capture import store
from fitdoctor.capture.launch import Options, launch
from fitdoctor.errors import FitdoctorError
from fitdoctor.facts import resolve
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Capture

KNOWN = ("tensorflow", "jax", "torch")
ROUNDS = 2
NO_CHANCE = 1.5
"""A backend that took so many times as long is not run again."""
FEWEST_STEPS = 200
"""Steps to watch on each, where there is time: short ones vary a lot."""
SECONDS = 20.0
"""How long each training is watched at most."""


def installed() -> list[str]:
    """Return the Keras backends that this Python could import."""
    return [name for name in KNOWN if importlib.util.find_spec(name) is not None]


def compare(options: Options, capture: Capture, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return what a step of the same script takes on each backend, round by round; or why it cannot be told."""
    facts = resolve(capture)
    own = facts.get(Training).backend
    others = [name for name in installed() if name != own]
    if not others:
        return []
    again = replace(
        options, lab=False, silent=True, capture=None, steps=max(FEWEST_STEPS, facts.get(Training).steps),
        budget=min(options.budget, SECONDS),
    )  # fmt: skip
    found: dict[str, dict[str, Any]] = {name: {"backend": name, "rounds": []} for name in (own, *others)}
    for number in range(ROUNDS):
        chosen = [own, *(name for name in others if _has_a_chance(found[name], found[own]))]
        if len(chosen) == 1:
            break
        for name in chosen if number % 2 == 0 else reversed(chosen):
            progress(f"the same script on {name}, round {number + 1} of {ROUNDS}")
            seen = _run(replace(again, backend=name), name)
            if "why" in seen:
                found[name]["why"] = seen["why"]
            else:
                found[name]["rounds"].append(seen)
        if "why" in found[own]:
            break
    return list(found.values())


def _has_a_chance(found: dict[str, Any], own: dict[str, Any]) -> bool:
    if "why" in found:
        return False
    if not found["rounds"] or not own["rounds"]:
        return True
    return bool(found["rounds"][-1]["step_s"]["mid"] < NO_CHANCE * own["rounds"][-1]["step_s"]["mid"])


def _run(options: Options, backend: str) -> dict[str, Any]:
    """Run the script once, and return what a step takes there."""
    with tempfile.TemporaryDirectory(prefix="fitdoctor-") as folder:
        path = Path(folder) / f"{backend}{store.SUFFIX}"
        try:
            ended = launch(replace(options, capture=path), lambda text: None)
            if not ended.training_seen:
                return {"why": ended.message or "no training was seen"}
            capture = store.read(path)
            facts = resolve(capture)
            training, model = facts.get(Training), facts.get(StepModel)
        except FitdoctorError as error:
            return {"why": str(error)}
    if training.backend != backend:
        return {"why": f"the script chooses its backend itself: it ran on {training.backend}"}
    return {
        "step_s": asdict(model.step),
        "steps": training.steps,
        "once_s": sum(training.elsewhere.get(each, 0.0) for each in ("imports", "compiling")),
        "learning": capture.meta.get("learning"),
    }
