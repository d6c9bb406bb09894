"""The equality oracle: a rewrite is accepted only after what comes out of it was compared with the original.

Both are built anew from the user's stages, so that the state of his own shuffles and caches stays as it is.  They are
read side by side for two epochs, the short last batch included, or as far as the time given goes.

- What promises order is compared bit for bit; a shuffle without a seed gets one, the same on both sides.
- What may come in another order (the user said so, or consented) is compared as a multiset, epoch by epoch, at the
  stage that was changed: batches made of other elements would differ.
- A vectorised map may differ in the last bits of its floats, by no more than `ROUNDING` of them.
- Where random numbers are drawn above the change, what goes into them is compared.

When in doubt, the answer is no.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.rewrites import purity
from fitdoctor.rewrites.candidates import ANY_ORDER, ROUNDED, Candidate
from fitdoctor.rewrites.datasets import Path, at, changed

EPOCHS = 2
ROUNDING = 8
"""By how many of its last places a float may differ after a reduction in another order."""
SECONDS = 5.0
MOST_ELEMENTS = 200_000
_SEED = 20_480
_ENDED = object()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the comparison found."""

    equal: str
    """identical, same elements, within ..., unchanged (random, but only handed on); empty where it is not equal."""
    compared: int = 0
    """Elements (batches, where whole pipelines were compared) over both epochs."""
    whole: bool = False
    """Both epochs were read to their end."""
    why: str = ""
    """What differs, or why it could not be compared."""
    differs: bool = False
    """It was compared, and it is not equal."""

    def __bool__(self) -> bool:
        return bool(self.equal)


def check(dataset: Any, candidate: Candidate, *, consents: bool = False, seconds: float = SECONDS) -> Verdict:
    """Compare a pipeline with what a candidate makes of it.

    `consents`: the caller knows that the data may be read twice, whatever Python does meanwhile.
    """
    contents = purity.of_pipeline(dataset)
    if contents.touches and not consents:
        return Verdict("", why=f"reading the data to compare it is not safe: {contents.touches}")
    if (name := purity.unwritten_cache(dataset)) is not None:
        return Verdict("", why=f"the cache file {name} is not complete: reading part of the data would spoil it")
    try:
        original, rewritten = _twins(dataset, candidate)
        different = _alike(original, rewritten)
        level = _level(dataset, candidate)
        if different:
            return Verdict("", why=different, differs=True)
        if level is None:
            if candidate.overlaps:
                # It hands on what lies below it, as it is.
                return Verdict("unchanged")
            return Verdict("", why="it draws random numbers below the change: no two passes are equal")
        before, after = at(original, level), at(rewritten, level)
        if candidate.promise == ANY_ORDER:
            return _as_multisets(before, after, seconds)
        return _in_order(before, after, seconds, rounded=candidate.promise == ROUNDED)
    except CannotRun as error:
        return Verdict("", why=error.problem)


def _twins(dataset: Any, candidate: Candidate) -> tuple[Any, Any]:
    """Build the original and the rewrite from stages with the same seeds."""
    seeded = {"Shuffle": lambda stage: {} if _has_seed(stage) else {"_seed": _constant(), "_seed2": _constant()}}
    twin = changed(dataset, seeded)
    return changed(twin, {}), candidate.apply(twin)


def _constant() -> Any:
    import tensorflow as tf

    return tf.constant(_SEED, tf.int64)


def _has_seed(stage: Any) -> bool:
    return bool(int(stage._seed) or int(stage._seed2))


def _alike(original: Any, rewritten: Any) -> str:
    """Say what differs before anything is read."""
    if original.element_spec != rewritten.element_spec:
        return f"its elements are {rewritten.element_spec} instead of {original.element_spec}"
    if int(original.cardinality()) != int(rewritten.cardinality()):
        return f"it has {int(rewritten.cardinality())} elements instead of {int(original.cardinality())}"
    if original.options()._to_proto() != rewritten.options()._to_proto():
        return "its options differ"
    return ""


def _level(dataset: Any, candidate: Candidate) -> Path | None:
    """Return where both are compared: at the end, or at the change where random numbers are drawn above it."""
    apart = candidate.promise == ANY_ORDER or purity.of_pipeline(dataset).random
    level = candidate.path if apart else ()
    return None if purity.of_pipeline(at(dataset, level)).random else level


# --- reading ------------------------------------------------------------------------------------------


def _leaves(element: Any) -> list[Any]:
    import numpy as np
    import tensorflow as tf

    flat = [leaf for leaf in tf.nest.flatten(element, expand_composites=True) if leaf is not None]
    if any(not hasattr(leaf, "numpy") or leaf.dtype == tf.variant for leaf in flat):
        raise CannotRun("its elements are datasets themselves, which are not compared")
    return [np.asarray(leaf.numpy()) for leaf in flat]


def _in_order(before: Any, after: Any, seconds: float, *, rounded: bool) -> Verdict:
    deadline = time.monotonic() + seconds
    compared, whole, bits = 0, True, True
    for epoch in range(EPOCHS):
        left, right = _elements(before), _elements(after)
        # The first epoch leaves a part of the time for the second.
        until = deadline - (seconds * 0.4 if epoch == 0 else 0.0)
        while True:
            one, other = next(left, _ENDED), next(right, _ENDED)
            if one is _ENDED and other is _ENDED:
                break
            if one is _ENDED or other is _ENDED:
                which = "original" if one is _ENDED else "rewrite"
                return _unequal(compared, f"the {which} ends first in epoch {epoch + 1}")
            same = _same(one, other)
            bits &= same
            if not same and not (rounded and _close(one, other)):
                return _unequal(compared, f"element {compared + 1} differs in epoch {epoch + 1}")
            compared += 1
            if time.monotonic() > until or compared >= MOST_ELEMENTS:
                whole = False
                break
    if compared == 0 and not whole:
        return Verdict("", why="no element came in the time given")
    return Verdict("identical" if bits else f"within {_tolerance(before):.0e}", compared, whole)


def _unequal(compared: int, why: str) -> Verdict:
    return Verdict("", compared, why=why, differs=True)


def _as_multisets(before: Any, after: Any, seconds: float) -> Verdict:
    deadline = time.monotonic() + seconds
    compared = 0
    for epoch in range(EPOCHS):
        left, right = (_counted(data, deadline) for data in (before, after))
        if left is None or right is None:
            return Verdict("", compared, why="its order may differ and the data is too long to compare as a whole")
        if left != right:
            return _unequal(compared, f"its elements differ in epoch {epoch + 1}")
        compared += sum(left.values())
    return Verdict("same elements", compared, whole=True)


def _counted(dataset: Any, deadline: float) -> Counter[bytes] | None:
    found: Counter[bytes] = Counter()
    for leaves in _elements(dataset):
        found[_hash(leaves)] += 1
        if time.monotonic() > deadline or len(found) >= MOST_ELEMENTS:
            return None
    return found


def _elements(dataset: Any) -> Iterator[list[Any]]:
    return (_leaves(element) for element in dataset)


def _hash(leaves: list[Any]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for leaf in leaves:
        digest.update(f"{leaf.dtype}{leaf.shape}".encode())
        digest.update(repr(leaf.tolist()).encode() if leaf.dtype == object else leaf.tobytes())
    return digest.digest()


def _same(one: Any, other: Any) -> bool:
    return len(one) == len(other) and all(
        a.dtype == b.dtype
        and a.shape == b.shape
        and (a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes())
        for a, b in zip(one, other, strict=True)
    )


def _close(one: Any, other: Any) -> bool:
    """Tell whether floats differ by rounding only, measured by the largest of them; all else must be the same."""
    import numpy as np

    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):
        if _same([a], [b]):
            continue
        if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind != "f":
            return False
        wide, narrow = a.astype(np.float64), b.astype(np.float64)
        largest = float(np.max(np.abs(wide[np.isfinite(wide)]), initial=0.0))
        bound = ROUNDING * float(np.finfo(a.dtype).eps) * largest
        if not np.allclose(wide, narrow, rtol=0.0, atol=bound, equal_nan=True):
            return False
    return True


def _tolerance(dataset: Any) -> float:
    """Return the tolerance of the narrowest float, as a share of the largest value."""
    import numpy as np
    import tensorflow as tf

    specs = tf.nest.flatten(dataset.element_spec)
    kinds = [spec.dtype for spec in specs if isinstance(spec, tf.TensorSpec) and spec.dtype.is_floating]
    return ROUNDING * max(
        (float(np.finfo(kind.as_numpy_dtype).eps) for kind in kinds if kind != tf.bfloat16), default=0
    )
