"""A GPU is in the machine and the training does not use it.

## What is wrong

The driver offers a GPU, or one sits on the PCI bus, and the framework computes on the CPU: a wheel without GPU support,
CUDA libraries that were not found, a driver that is too old or not loaded, a setting that hides the devices, or a line
of the script that places everything on the CPU.  Frameworks say so in one line of their log at most.

## How it is established

What the driver (NVML) and the PCI bus show is compared with what the framework that trains may use, asked in the very
run, and with where the model's weights are.  What the GPU would save cannot be measured while it is not used, so this
is a suspicion, never a finding: small models may well be faster on the CPU.

## What to do

The report gives the command that repairs what was found, with the version that is installed.

## When it is not worth it

When the GPU is left out on purpose; when the model is so small that launching its steps takes longer than computing.

## Example

    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"                       # the GPU is hidden
    python -m pip install 'tensorflow[and-cuda]==2.21.0'            # in place of tensorflow-cpu
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fitdoctor.errors import MissingEvidence
from fitdoctor.facts.placement import Placement
from fitdoctor.facts.source_tree import FoundCall, SourceFile, SourceTree
from fitdoctor.facts.training import Training
from fitdoctor.model import Cost, Fix, Gap, Site
from fitdoctor.rules import Absent, Clear, Suspect, Verdict

_TRAINS = frozenset({"fit", "compile", "train_on_batch", "apply_gradients"})
_NONE = frozenset({"", "-1", "NoDevFiles"})
_SCOPES = frozenset({"tensorflow.device", "keras.device", "jax.default_device"})
_VISIBLE = frozenset({"tensorflow.config.set_visible_devices", "tensorflow.config.experimental.set_visible_devices"})
_UNMEASURED = "what the GPU would save was not measured"


SUSPICION = "may hide the GPU of the machine from the training"


def locate(source: SourceTree) -> Iterator[Site]:
    """Find lines that hide GPUs from the framework, or place what follows on the CPU."""
    yield from sorted({*_hiding(source), *_placing(source)}, key=lambda site: (site.path, site.line))


def _hiding(source: SourceTree) -> list[Site]:
    found = [call.site for call in source.calls(*_VISIBLE, "jax.config.update") if _hides(call)]
    found += [
        file.site(node)
        for file in source.files
        if "environ" in file.text
        for node in file.nodes(ast.Assign)
        if _hides_by_variable(file, node) and (source.trains or isinstance(file.scope(node), ast.Module))
    ]
    return sorted(found, key=lambda site: site.line)


def _placing(source: SourceTree) -> list[Site]:
    calls = (call for call in source.calls(*_SCOPES) if call.node.args and (source.ran or _holds_training(call)))
    return [call.site for call in calls if "cpu" in (_text(call.node.args[0]) or "").lower()]


def _holds_training(call: FoundCall) -> bool:
    """Tell whether what is placed makes or trains a model; to prepare data on the CPU is right."""
    around = call.file.parents.get(call.file.parents[call.node])
    body = around.body if isinstance(around, ast.With) else []
    inside = (getattr(node.func, "attr", "") for each in body for node in ast.walk(each) if isinstance(node, ast.Call))
    return not _TRAINS.isdisjoint(inside)


def _hides(call: FoundCall) -> bool:
    first, second = call.argument(0, "devices"), call.argument(1, "device_type")
    if call.name in _VISIBLE:
        return isinstance(first, (ast.List, ast.Tuple)) and not first.elts and _text(second) in ("GPU", None)
    if call.name == "jax.config.update" and len(call.node.args) == 2:
        return _text(call.node.args[0]) in ("jax_platforms", "jax_platform_name") and _text(call.node.args[1]) == "cpu"
    return False


def _hides_by_variable(file: SourceFile, node: ast.AST) -> bool:
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    if (
        not isinstance(node, ast.Assign)
        or not isinstance(target, ast.Subscript)
        or file.resolve(target.value) != "os.environ"
    ):
        return False
    name, value = _text(target.slice), _text(node.value)
    return (name == "CUDA_VISIBLE_DEVICES" and value in _NONE) or (name == "JAX_PLATFORMS" and value == "cpu")


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def measure(training: Training, placement: Placement, source: SourceTree | None) -> Verdict:
    """Compare what is there with what is used."""
    trouble = placement.trouble
    if not placement.cards:
        if trouble is not None:
            raise MissingEvidence(Gap("the GPUs of this machine", trouble.found, trouble.do))
        return Absent("there is no NVIDIA GPU in this machine")
    if placement.gpus and placement.seen is None:
        raise MissingEvidence(
            Gap(
                f"whether {training.backend} uses the GPU",
                "it was not asked during the run",
                "fitdoctor env asks every framework",
            )
        )
    if placement.on_gpu:
        return Clear(f"{training.backend} computes on the GPU")
    if placement.on_gpu is None:
        return Clear(f"{training.backend} may use {placement.seen} of {len(placement.gpus)} GPUs")
    lines = [] if source is None else _placing(source) if placement.seen else _hiding(source)
    here = lines[0] if lines else None
    return Suspect(f"{_seen(training, placement, here)}; {_UNMEASURED}", here or placement.script)


def _seen(training: Training, placement: Placement, here: Site | None) -> str:
    """Say what was seen, and the line to take out or the command that helps."""
    trouble = placement.trouble
    if placement.seen:
        kinds = " and ".join(kind.upper() for kind in placement.weights_on or ())
        out = "take this line out" if here is not None else "say keras.device('gpu')"
        return f"{training.backend} sees the GPU, but all weights of the model are on the {kinds}: {out}"
    without = trouble is not None and "no GPU support" in trouble.found
    if (here is not None or placement.hidden_by_script) and placement.gpus and not without:
        return f"{training.backend} sees none of {len(placement.gpus)} GPUs, which the script hides: take that line out"
    if trouble is None:
        found = f"the driver offers {len(placement.gpus)} GPUs and {training.backend} sees none"
        return f"{found}: fitdoctor env says what is in the way"
    whose = "" if trouble.subject == "gpu" else f"{trouble.subject} "
    return f"{whose}{trouble.found}: {trouble.do}"


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Nothing: a suspicion has no cost to mend."""
    del cost, source
    return None
