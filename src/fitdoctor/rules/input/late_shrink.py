"""Costly pixel work is done before pictures are shrunk.

## What is wrong

Colours are changed, noise is added or values are converted on pictures as large as they were decoded; then most of
their pixels are thrown away.  The same work on shrunk pictures touches a fraction of them.

## How it is established

The lab reads the graph of the user's own map, finds what decodes and what shrinks, and runs a copy of it up to the
shrink on some of the user's own elements: as it is, in turns with the decoded picture shrunk at once, by the same
resize (or crop), before all that the user does to it.  The gain of the step follows from the share of the loader's time
that this part of the function takes, and from the step model.

Measured on two cores with TensorFlow 2.21: reading, changing hue, saturation and contrast at random and resizing from
640 × 480 to 96 × 96 took 4.8 ms a picture, with the resize first 1.7 ms.  Converting to float before the resize costs
little: 1.27 against 1.14 ms.

## What to do

Move the resize (or the crop) up, right after decoding; work on the shrunk picture.  Results differ a little: blurring
and noise act on other pixels.

## When it is not worth it

When the step does not wait for input; when the work in between is next to nothing; when pictures are hardly larger
before.

## Example

    picture = tf.image.random_hue(picture, 0.1)         # slow: at full size
    picture = tf.image.resize(picture, (96, 96))

    picture = tf.image.resize(picture, (96, 96))        # fast
    picture = tf.image.random_hue(picture, 0.1)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor import units
from fitdoctor.edits import Earlier
from fitdoctor.facts import spots
from fitdoctor.facts.elements import place_of, share_of_loader, shorter_input
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.rewrites import believed, felt
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Site
from fitdoctor.rules import Absent, Clear, Verdict

EXPERIMENT = "pictures shrunk first"
_PIXELS = ("adjust_", "random_hue", "random_saturation", "random_contrast", "random_brightness", "random_jpeg",
           "stateless_random_hue", "stateless_random_saturation", "stateless_random_contrast",
           "stateless_random_brightness", "per_image_standardization", "rgb_to_hsv")  # fmt: skip
_SHRINKS = ("resize", "resize_with_pad", "resize_with_crop_or_pad", "random_crop", "stateless_random_crop",
            "central_crop", "crop_to_bounding_box")  # fmt: skip


SUSPICION = "may work on far more pixels than the model sees: pictures are shrunk last"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find resizes and crops that follow pixel work, in functions that decode."""
    for file in source.files:
        if "decode_" not in file.text or not any(_of_images(call) for call in file.calls_of(*_SHRINKS)):
            continue
        calls = list(file.calls())
        for function in file.functions.values():
            decoded = worked = False
            for call in (each for each in calls if function in file.inside(each.node)):
                name = call.name.rpartition(".")[2]
                decoded = decoded or name.startswith("decode_")
                if worked and _of_images(call) and name in _SHRINKS:
                    yield call.site
                    break
                worked = worked or (decoded and _of_images(call) and name.startswith(_PIXELS))


def _of_images(call: FoundCall) -> bool:
    return call.name.startswith("tensorflow.image.")


def measure(pipeline: InputPipeline, trials: Trials, model: StepModel) -> Verdict:
    """Take what shrinking first gives from the experiment and the gain of the step from the model."""
    if pipeline.adapter != "tf.data" or pipeline.operators is None:
        return Absent(f"the input is {pipeline.adapter}, not tf.data")
    if not any(each.decodes for each in pipeline.operators):
        return Absent("no function of the pipeline decodes pictures")
    model.need("input")
    if not felt(trials, model, "shrunk first"):
        return Clear("the step does not wait for input")
    ratio, trial = trials.ratio("shrunk first", experiment=EXPERIMENT)
    if ratio.low >= 1:
        return Clear("what is done to pictures before they are shrunk takes as long after it")
    share = share_of_loader(trial, model)
    change = believed(trials, trial.name, shorter_input(ratio, share), model)
    decoded, kept = (float(trial.detail.get(name) or 0) for name in ("decoded_pixels", "shrunk_pixels"))
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"{', '.join(trial.detail.get('work') or ('work',))} on pictures of {decoded:,.0f} pixels of which "
                f"{kept:,.0f} are kept; with the shrink first a picture took {units.percent_range(ratio)} of the time, "
                f"and that is {units.percent(share)} of what the loader does"
            ),
            site=place_of(trial),
            change=change,
            evidence={"decoded_pixels": decoded, "kept_pixels": kept, "share_of_loader": share},
        )
    ]


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    del cost
    title = "resize or crop right after decoding, before the other work on pixels"
    edits = tuple(edit for file in source.files for edit in _earlier(file)) if source is not None else ()
    return Fix(title, "may change", edits=edits if len(edits) == 1 else ())


def _earlier(file: SourceFile) -> Iterator[Earlier]:
    """Move the shrink before the first work on pixels, where every line between them makes one picture of another."""
    for function in file.functions.values():
        lines = [_step(file, statement) for statement in function.body]
        worked = next((place for place, line in enumerate(lines) if line is not None and line[1] == "work"), None)
        shrunk = next((place for place, line in enumerate(lines) if line is not None and line[1] == "shrink"), None)
        if worked is None or shrunk is None or worked > shrunk:
            continue
        names = {line[0] if line is not None else None for line in lines[worked : shrunk + 1]}
        name = names.pop()
        if names or name is None:
            continue
        if _keeps_type(file, function.body[shrunk]) or _is_float(file, function.body[:shrunk], worked, name):
            yield Earlier(spots.start(file, function.body[shrunk]), spots.start(file, function.body[worked]))


_CASTS = frozenset({"cast", "convert_image_dtype"})


def _keeps_type(file: SourceFile, statement: ast.stmt) -> bool:
    return not any(
        file.resolve(node.func).rpartition(".")[2] in ("resize", "resize_with_pad")
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
    )


def _is_float(file: SourceFile, before: list[ast.stmt], worked: int, picture: str) -> bool:
    """Tell whether a picture is made of fractions before all that, and nothing in it makes them anew.

    A resize makes fractions of whole numbers, but leaves them as large: what comes after it would take them for others.
    """
    kinds: dict[int, bool] = {}
    for place, statement in enumerate(before):
        named = isinstance(statement, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id == picture for each in statement.targets
        )
        for node in ast.walk(statement) if named else ():
            if isinstance(node, ast.Call) and file.resolve(node.func).rpartition(".")[2] in _CASTS:
                kind = next((each.value for each in node.keywords if each.arg == "dtype"), (*node.args, None, None)[1])
                kinds[place] = kind is not None and any(each in ast.unparse(kind) for each in ("float", "half"))
    return bool(kinds) and max(kinds) < worked and kinds[max(kinds)]


def _step(file: SourceFile, statement: ast.stmt) -> tuple[str, str] | None:
    """Return the name that a line makes anew of itself, and what it does; None: anything else."""
    if (
        not isinstance(statement, ast.Assign)
        or len(statement.targets) != 1
        or not isinstance(statement.value, ast.Call)
    ):
        return None
    target, call = statement.targets[0], statement.value
    given = call.args[0] if call.args else None
    if not isinstance(target, ast.Name) or not isinstance(given, ast.Name) or given.id != target.id:
        return None
    module, _, name = file.resolve(call.func).rpartition(".")
    if module == "tensorflow.image" and name in _SHRINKS:
        return target.id, "shrink"
    return target.id, "work" if module == "tensorflow.image" and name.startswith(_PIXELS) else "other"
