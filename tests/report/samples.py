"""Reports to render: a rich one, a healthy one, an empty one, a hostile one."""

from __future__ import annotations

from typing import Any

from fitdoctor.model import (
    Ceiling,
    Cost,
    Finding,
    Fix,
    Gap,
    Interval,
    NotApplicable,
    Passed,
    Report,
    Site,
    Suspicion,
    Unknown,
)

SOURCE = """import tensorflow as tf


def load(path):
    image = tf.io.decode_jpeg(tf.io.read_file(path))
    return tf.image.resize(image, (96, 96))


def augment(image):
    flipped = image[:, ::-1]
    return flipped * random.uniform(0.8, 1.2)


data = tf.data.Dataset.from_tensor_slices(paths).map(load)
data = data.map(lambda image: tf.numpy_function(augment, [image], tf.float32)).batch(32)
model.fit(data, epochs=5, callbacks=[Histograms()])
"""


def source_of(site: Site) -> list[str] | None:
    """Give the lines of the only file there is."""
    return SOURCE.split("\n") if site.path.endswith("slow_images.py") else None


def run(**changes: Any) -> dict[str, Any]:
    """Describe a run."""
    return {
        "command": ["examples/slow_images.py", "--epochs", "5"],
        "script": "examples/slow_images.py",
        "backend": "tensorflow",
        "versions": {"python": "3.11.7", "keras": "3.15.1", "tensorflow-cpu": "2.21.0"},
        "steps": 212,
        "step_ms": Interval(61.2, 62.5, 64.9),
        "overhead": {
            "us_per_step": 8.4,
            "us_per_step_low": 5.1,
            "us_per_step_high": 11.7,
            "fraction": 0.00013,
            "how": "replayed",
        },
        "ranks": 1,
        "mode": "capped",
        "planned_steps": 3200,
        "projected_s": 208.0,
        **changes,
    }


SLOW = Report(
    headline="Your training waits for its input 71 % of the time: one Python function holds it up.",
    run=run(),
    breakdown={
        "input": 44.4,
        "transfer": 0.0,
        "compute": 11.1,
        "host": 0.6,
        "callbacks": 6.1,
        "sync": 0.1,
        "other": 0.2,
    },
    phases={
        "imports": 4.21,
        "set-up": 1.32,
        "compiling": 1.9,
        "steady steps": 13.25,
        "validation": 0.0,
        "between epochs": 0.33,
        "callbacks": 0.002,
        "saving": 0.0,
        "rest": 0.12,
    },
    ceiling=Ceiling(Interval(3.1, 4.2, 5.4), "compute"),
    findings=(
        Finding(
            "python-map",
            "input",
            Site("examples/slow_images.py", 15, None, "augment"),
            Cost(
                Interval(0.55, 0.61, 0.66),
                "The Python function augment runs in the pipeline one call at a time and holds the GIL "
                "93 % of its 1.31 ms per element, so 32 elements take 41.9 ms of each 62.5 ms step.",
                site=Site("examples/slow_images.py", 15, None, "augment"),
                evidence={"calls": 6784, "wall_ms": 1.31, "gil_share": 0.93},
            ),
            Fix(
                "write augment with TensorFlow operations, so that it runs in parallel outside Python",
                "may change",
                "--- a/examples/slow_images.py\n+++ b/examples/slow_images.py\n@@ -15 +15 @@\n"
                "-data = data.map(lambda image: tf.numpy_function(augment, [image], tf.float32)).batch(32)\n"
                "+data = data.map(augment, num_parallel_calls=tf.data.AUTOTUNE).batch(32)\n",
            ),
        ),
        Finding(
            "slow-callback",
            "framework",
            Site("examples/slow_images.py", 16, None, "Histograms.on_train_batch_end"),
            Cost(
                Interval(0.078, 0.094, 0.101),
                "Histograms.on_train_batch_end takes 6.05 ms after every step.",
                site=Site("examples/slow_images.py", 16, None, "Histograms.on_train_batch_end"),
            ),
            Fix("do it once per epoch: rename the hook to on_epoch_end", "same"),
        ),
    ),
    suspicions=(
        Suspicion(
            "repeated-preprocessing",
            "input",
            Site("examples/slow_images.py", 5),
            "every epoch decodes the same files again.",
        ),
    ),
    passed=(
        Passed("eager-step", "the step runs compiled"),
        Passed("missing-prefetch", "input and compute overlap"),
    ),
    unknown=(
        Unknown(
            "idle-gpu",
            Gap("the GPU's use", "no NVIDIA driver answers on this machine", "run it where the GPU is"),
        ),
    ),
    not_applicable=(
        NotApplicable("idle-workers", "no PyDataset"),
        NotApplicable("straggler", "one process"),
    ),
    notes=(
        "Watching cost 8.40 µs per step, less than 0.1 % of it.",
        "2 of 214 steps were left out: another process used the cores meanwhile.",
    ),
    next_command="fitdoctor fix examples/slow_images.py",
)

HEALTHY = Report(
    headline="Nothing worth fixing: 97 % of each step is the model's own computation.",
    run=run(backend="jax", versions={"keras": "3.15.1", "jax": "0.10.2"}),
    breakdown={
        "input": 0.5, "transfer": 0.1, "compute": 60.6, "host": 0.9, "callbacks": 0.1, "sync": 0.2,
        "other": 0.1,
    },
    phases={"imports": 3.0, "compiling": 2.0, "steady steps": 55.0},
    ceiling=Ceiling(Interval(1.0, 1.0, 1.02), "compute"),
    findings=(),
    suspicions=(),
    passed=(Passed("eager-step", "compiled"),),
    unknown=(),
    not_applicable=(),
    next_command="fitdoctor env",
)  # fmt: skip

EMPTY = Report(
    headline="No training step was observed.",
    run={},
    breakdown={},
    phases={},
    ceiling=None,
    findings=(),
    suspicions=(),
    passed=(),
    unknown=(),
    not_applicable=(),
)

BAD = "\x1b[31m[bold red]x[/] \u202egnp.exe\x07\r\n[link=http://x]" + "y" * 300

HOSTILE = Report(
    headline=BAD,
    run=run(script=BAD, backend=BAD, versions={"keras": BAD}),
    breakdown=SLOW.breakdown,
    phases=SLOW.phases,
    ceiling=Ceiling(Interval(1.0, 1.5, float("inf")), BAD),
    findings=(
        Finding(
            "python-map",
            "input",
            Site(BAD, 1, 9, BAD),
            Cost(Interval(0.1, 0.2, 0.3), BAD, evidence={BAD: float("nan"), "s": {"b", "a"}}),
            Fix(BAD, "manual", "+" + BAD),
        ),
    ),
    suspicions=(Suspicion("small-files", "input", Site(BAD, 3), BAD),),
    passed=(Passed("eager-step", BAD),),
    unknown=(Unknown("idle-gpu", Gap(BAD, BAD, BAD)),),
    not_applicable=(NotApplicable("straggler", BAD),),
    notes=(BAD,),
    next_command="fitdoctor diagnose '" + BAD + "'",
)

ALL = {"slow": SLOW, "healthy": HEALTHY, "empty": EMPTY, "hostile": HOSTILE}
