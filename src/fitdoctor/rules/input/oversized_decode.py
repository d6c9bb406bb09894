"""Pictures are decoded far larger than the model sees them.

## What is wrong

Files as a camera wrote them are decoded in full, and nearly all of their pixels are thrown away by the resize that
follows.  Decoding costs in proportion to what is decoded, not to what is kept.

## How it is established

The lab reads the graph of the user's own map (and of functions it calls, `image_dataset_from_directory`'s too), finds
what decodes and what shrinks, and counts decoded and kept pixels on some of the user's own elements.  It then decodes
and shrinks the same files in turns: as it is done now; with the largest `ratio` of the JPEG library that still leaves
as many pixels as are wanted (or, before a crop, only the part that is cropped); and from files that were shrunk once
beforehand.  What is done to pictures in between is left out: late-shrink judges that.  The gain of the step follows
from the share of the loader's time that decoding takes, and from the step model.

Measured on two cores with TensorFlow 2.21: photographs of 1024 × 768 pixels (126 KB) resized to 96 × 96 took 82, 61 and
64 % of the time with `ratio` 2, 4 and 8, noisy ones (406 KB) 73 % with `ratio=8`: the JPEG library still has to read
all of the file.  A window of 96 × 96 took 46 % of decoding all and cropping.  Files that were shrunk beforehand took
11 %; shrinking them costs about one epoch's decoding, which is counted.

## What to do

Resize the files once, offline, if there is more than an epoch; or `tf.io.decode_jpeg(…, ratio=N)` before the resize,
`tf.io.decode_and_crop_jpeg` before a crop.  The finding names whichever was measured to save more.  Pictures differ a
little from those that were decoded in full and then resized.

## When it is not worth it

When the step does not wait for input; when pictures are only a little larger than what is kept; when a cache keeps
them after the first epoch.

## Example

    picture = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)                # slow: 4000 × 3000 pixels
    picture = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, ratio=8)       # faster
    picture = tf.io.decode_jpeg(tf.io.read_file(small_path), channels=3)          # fast: resized once, offline
    picture = tf.image.resize(picture, (96, 96))
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows, spots
from fitdoctor.facts.elements import place_of, share_of_loader, shorter_input
from fitdoctor.facts.input_pipeline import InputPipeline
from fitdoctor.facts.rewrites import believed
from fitdoctor.facts.source_tree import SourceTree
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Gap, Interval, Site, Trial
from fitdoctor.rules import Absent, Clear, Verdict

EXPERIMENT = "pictures decoded smaller"
SMALLER, BEFOREHAND, LATE = "decoded smaller", "shrunk beforehand", "shrunk first"
MOSTLY = 0.6
"""Pictures that take less than this of the time when they are shrunk first cost mostly what is done to them before."""
_DECODES = ("decode_jpeg", "decode_image", "decode_png", "image_dataset_from_directory")
_IN_PYTHON = ("PIL.Image.open", "cv2.imread", "cv2.imdecode", "keras.utils.load_img", "imageio.imread")


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: that pictures are decoded and resized is not suspicious by itself, only how large they are."""
    del source
    return iter(())


def place(source: SourceTree) -> Iterator[Site]:
    """Find what decodes pictures."""
    for call in source.calls():
        if call.name.rpartition(".")[2] in _DECODES:
            yield call.site


def measure(
    training: Training, pipeline: InputPipeline, trials: Trials, model: StepModel, source: SourceTree | None
) -> Verdict:
    """Take what decoding less costs from the experiment and the gain of the step from the model."""
    if pipeline.adapter != "tf.data" or pipeline.operators is None:
        return _in_python(pipeline, model, source)
    if not any(each.decodes for each in pipeline.operators):
        return Absent("no function of the pipeline decodes pictures")
    model.need("input")
    if model.share("input").high <= model.noise:
        return Clear("the step does not wait for input")
    ways = [_way(ratio, trial, training, trials, model) for ratio, trial in _tried(trials)]
    best = max(ways, key=lambda each: each.saving.mid)
    if best.saving.high <= 0:
        decoded, kept = (f"{best.evidence[name]:,.0f}" for name in ("decoded_pixels", "kept_pixels"))
        return Clear(f"pictures of {decoded} pixels of which {kept} are kept decode no faster when smaller")
    others = {str(each.evidence["how"]): each.saving.mid for each in ways}
    return [replace(best, evidence={**best.evidence, "savings": others})]


def _way(ratio: Interval, trial: Trial, training: Training, trials: Trials, model: StepModel) -> Cost:
    """Return what one way to decode less would save."""
    share = share_of_loader(trial, model)
    change = shorter_input(ratio, share)
    if not _mostly_late(trials):
        change = believed(trials, trial.name, change, model)
    if trial.name == BEFOREHAND:
        change = replace(change, once=_offline(trial, training))
    decoded, kept = (float(trial.detail.get(name) or 0) for name in ("decoded_pixels", "shrunk_pixels"))
    return Cost(
        saving=model.with_change(change).saving(),
        because=(
            f"pictures of {decoded:,.0f} pixels are decoded, {kept:,.0f} are kept; {_how(trial)} a picture took "
            f"{units.percent_range(ratio)} of the time, and that is {units.percent(share)} of what the loader does"
        ),
        site=place_of(trial),
        change=change,
        evidence={
            "how": _how(trial),
            "decoded_pixels": decoded,
            "kept_pixels": kept,
            "decode": trial.detail.get("decode"),
            "ratio": trial.detail.get("ratio"),
            "window": bool(trial.detail.get("window")),
            "difference": trial.detail.get("difference"),
            "share_of_loader": share,
        },
    )


def _mostly_late(trials: Trials) -> bool:
    """Tell whether most of the work is what late-shrink judges: on smaller pictures it would be gone as well."""
    try:
        return trials.ratio(LATE)[0].mid < MOSTLY
    except MissingEvidence:
        return False


def _offline(trial: Trial, training: Training) -> Interval:
    """Return the seconds it takes to shrink the files of an epoch once: to decode each, and as much again at most."""
    each = rows.median(trial.baseline_ns).mid / 1e9 * float(trial.detail.get("rows") or 1)
    return Interval(1.0, 1.5, 2.0).scale(each * (training.steps_per_epoch or training.planned_steps))


def _in_python(pipeline: InputPipeline, model: StepModel, source: SourceTree | None) -> Verdict:
    """Answer for loaders of Python, where no graph tells how large pictures are."""
    if source is None or not any(source.calls(*_IN_PYTHON)):
        return Absent(f"the input is {pipeline.adapter}, and nothing is seen to decode pictures")
    model.need("input")
    if model.share("input").high <= model.noise:
        return Clear("the step does not wait for input")
    raise MissingEvidence(
        Gap(
            "the size of decoded pictures",
            "they are decoded in Python, where no graph tells their sizes",
            "try Image.draft() or smaller files in the script, or decode them with tf.data",
        )
    )


def _tried(trials: Trials) -> list[tuple[Interval, Trial]]:
    """Return what the lab tried: a change of the code, files that were shrunk before, or both."""
    found: list[tuple[Interval, Trial]] = []
    missing: MissingEvidence | None = None
    for name in (SMALLER, BEFOREHAND):
        try:
            found.append(trials.ratio(name, experiment=EXPERIMENT))
        except MissingEvidence as error:
            missing = error
    if not found:
        raise missing or AssertionError
    return found


def _how(trial: Trial) -> str:
    if trial.name == BEFOREHAND:
        return "from files that were shrunk beforehand"
    return f"with ratio={trial.detail['ratio']}" if trial.detail.get("ratio") else "decoded only where it is cropped"


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    if cost.evidence.get("ratio"):
        instead = "" if cost.evidence.get("decode") == "DecodeJpeg" else " in place of decode_image"
        title = f"decode with tf.io.decode_jpeg(…, ratio={cost.evidence['ratio']}){instead}"
        decodes = source.calls("tensorflow.io.decode_jpeg", "tensorflow.image.decode_jpeg") if source else ()
        call = spots.the_only(decodes) if not instead else None
        give = (("ratio", str(cost.evidence["ratio"])),)
        order = ("contents", "channels", "ratio")
        edits = (Arguments(spots.spot(call), give, order=order),) if call is not None else ()
        return Fix(title, "may change", edits=edits)
    if cost.evidence.get("window"):
        return Fix("decode only what is cropped, with tf.io.decode_and_crop_jpeg", "may change")
    return Fix("resize the files once, offline, to a little more than what is kept", "may change")
