"""Pictures in a tf.data pipeline: what decodes them, what shrinks them, how large they are before and after.

Read from the graphs of the user's own functions; tried on a few of his own elements, which are kept as they come in.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import FELT, Seen
from fitdoctor.lab.experiments.loader_alone import Puller
from fitdoctor.lab.job import Offer
from fitdoctor.model import Site
from fitdoctor.probes.dataset_ops import DECODES
from fitdoctor.probes.dataset_tf import name_of, stages
from fitdoctor.probes.input_tf_generators import KEPT
from fitdoctor.rewrites.datasets import paths, replaced
from fitdoctor.rewrites.graphs import Function, Instead, Node, Value, copy_of, in_place_of, inlined, mapped

MAPS = frozenset({"Map", "ParallelMap"})
HANDS_ON = frozenset({"Shuffle", "Repeat", "Take", "Options", "Model", "IgnoreErrors"})
"""They change the order or the number of elements, not what is done to one."""
RESIZES = {
    "ResizeBilinear": "bilinear",
    "ResizeNearestNeighbor": "nearest",
    "ResizeBicubic": "bicubic",
    "ResizeArea": "area",
    "ScaleAndTranslate": "bilinear",
}
CROPS = frozenset({"Slice", "StridedSlice"})
_NO_PICTURE = frozenset({"Shape", "ShapeN", "Size", "Rank"})
"""Ops that tell about a picture; what they return is none."""
ELEMENTS = 12
SECONDS = 1.0
"""So many elements are kept, fewer where they take longer than that to read."""


@dataclass(frozen=True, slots=True, eq=False)
class Pictures:
    """What happens to the pictures of a pipeline, and some of its elements to try it on."""

    dataset: Any
    chain: tuple[Any, ...]
    """The user's maps from the one that decodes on, innermost first."""
    function: Function
    elements: Any
    """A dataset that gives them again and again from memory."""
    count: int
    decode: Node
    between: tuple[Node, ...]
    """What is done to pictures after they were decoded and before they are shrunk."""
    shrink: Node
    resized: bool
    """The shrink is a resize, not only a crop."""
    decoded: tuple[tuple[int, int], ...]
    """Height and width of each kept picture as it is decoded."""
    before: tuple[tuple[int, int], ...]
    """As it comes to the shrink."""
    shrunk: tuple[tuple[int, int], ...]
    """As it leaves it."""
    parallel: int | None
    serial: bool
    """The user's function is called for one picture after the other."""
    options: Any

    @property
    def contents(self) -> Value:
        """The encoded picture."""
        return self.decode.inputs[0]

    def size(self) -> tuple[int, int]:
        """Return the height and width that all pictures are brought to."""
        if len(set(self.shrunk)) != 1:
            raise CannotRun("its pictures are brought to different sizes", do="try it in the script")
        return self.shrunk[0]

    def puller(self, wanted: Sequence[Value], instead: Instead | None = None, data: Any = None) -> Puller:
        """Return what pulls these tensors for one element after the other, called as the user's function is."""
        source = (self.elements if data is None else data).repeat()
        made = mapped(source, self.function, wanted, instead, self.parallel).with_options(self.options)
        puller = Puller(lambda: iter(made))
        puller.block(0.05)
        return puller

    def values(self, wanted: Sequence[Value], instead: Instead | None = None) -> Iterator[list[Any]]:
        """Yield these tensors of each kept element, as NumPy has them."""
        for each in mapped(self.elements, self.function, wanted, instead):
            yield [tensor.numpy() for tensor in each]

    def rewritten(self, instead: Instead) -> Any:
        """Build the user's whole pipeline again with some of what his functions do replaced."""
        for below, above in itertools.pairwise(self.chain):
            if above._input_dataset is not below:
                raise CannotRun("something lies between the maps of its pictures", do="try it in the script")
        last = self.chain[-1]
        place = next(path for path, stage in paths(self.dataset) if stage is last)
        fitting = {value: (parts, _of_rank(value, make)) for value, (parts, make) in instead.items()}
        return replaced(self.dataset, place, in_place_of(last, self.chain[0]._input_dataset, self.function, fitting))

    def offer(self, trial: str, rule: str, instead: Instead, unless: str = "") -> Iterator[Offer]:
        """Yield the pipeline with some of it replaced, to rehearse the training on; nothing if it cannot be built."""
        with contextlib.suppress(CannotRun, TypeError, ValueError):
            made = self.rewritten(instead)
            yield Offer(trial, rule, lambda whole: {"x": made}, unless=unless)

    def detail(self, where: Site | None) -> dict[str, Any]:
        """Return what a trial says of them: counts of pixels, never pixels."""
        told = {
            "unit": "ns per element",
            "pictures": self.count,
            "decoded_pixels": _mean(self.decoded),
            "shrunk_pixels": _mean(self.shrunk),
            "decode": self.decode.kind,
            "shrink": self.shrink.kind,
        }
        return {**told, "path": where.path, "line": where.line, "symbol": where.symbol} if where is not None else told


def _mean(sizes: Sequence[tuple[int, int]]) -> float:
    return sum(height * width for height, width in sizes) / len(sizes)


def worth(seen: Seen, felt: float) -> float:
    """Weigh pipelines that decode pictures: `felt` where the step waits for them."""
    decodes = any(each.get("decodes") for each in seen.info.get("dataset") or ())
    if not decodes or seen.info.get("adapter") != "tf.data":
        return 0.0
    return felt if seen.shares["fetch"] > FELT else 1.0


def found(dataset: Any) -> Pictures:
    """Look into a user's dataset; raise CannotRun where it has no pictures that are decoded and shrunk."""
    chain = _chain(dataset)
    function = inlined([stage._map_func.function for stage in chain])
    decodes = [node for node in function.nodes if node.kind in DECODES]
    if not decodes:
        raise CannotRun("its pictures are decoded inside a branch", do="decode without a condition, then run it again")
    decode = decodes[0]
    shrinks, behind = _behind(function, decode)
    if not shrinks:
        raise CannotRun("its pictures are neither resized nor cropped after they were decoded")
    elements, count = kept(chain[0]._input_dataset)
    shrink, sizes = _largest_shrink(function, decode, shrinks, elements)
    parallel = getattr(chain[0], "_num_parallel_calls", None)
    serial = parallel is None and any(node.op.op_def.is_stateful for node in function.nodes if node.kind != "Assert")
    return Pictures(
        dataset=dataset, chain=tuple(chain), function=function, elements=elements, count=count,
        decode=decode, shrink=shrink,
        between=tuple(node for node in behind if _leads_to(node, shrink)),
        resized=shrink.kind in RESIZES, decoded=tuple(each[0] for each in sizes),
        before=tuple(each[1] for each in sizes), shrunk=tuple(each[2] for each in sizes),
        parallel=None if parallel is None else int(parallel), serial=serial, options=_options(dataset, serial),
    )  # fmt: skip


def _chain(dataset: Any) -> list[Any]:
    """Return the maps from the one that decodes on, as far as nothing but maps follows, innermost first."""
    chain: list[Any] = []
    every = list(stages(dataset))[::-1]
    for place, stage in enumerate(every):
        name = name_of(stage)
        if name in MAPS:
            if chain or _decodes(stage):
                chain.append(stage)
        elif chain and name == "Cache":
            raise CannotRun("its pictures are decoded once: a cache keeps them")
        elif chain and name not in HANDS_ON and name != "Prefetch":
            if any(name_of(later) == "Cache" for later in every[place:]):
                raise CannotRun("its pictures are decoded once: a cache keeps them")
            break
        elif KEPT in vars(stage):
            raise CannotRun(
                "its elements come from a generator, which may do more than yield", do="try it in the script"
            )
    if not chain:
        raise CannotRun("no function of the pipeline decodes pictures")
    return chain


def _decodes(stage: Any) -> bool:
    return any(node.kind in DECODES for node in inlined([stage._map_func.function]).nodes)


def _behind(function: Function, decode: Node) -> tuple[list[Node], list[Node]]:
    """Return the resizes and crops that decoded pictures come to, and everything else they pass."""
    shrinks: list[Node] = []
    passed: list[Node] = []
    pictures = {decode.output()}
    for node in function.nodes:
        if node.kind in _NO_PICTURE or not pictures & set(node.inputs):
            continue
        shrinking = node.kind in RESIZES or (node.kind in CROPS and node.inputs[0] in pictures)
        (shrinks if shrinking else passed).append(node)
        pictures.update(node.output(index) for index in range(len(node.op.outputs)))
    return shrinks, passed


def _leads_to(node: Node, shrink: Node) -> bool:
    todo, seen = list(shrink.inputs), set()
    while todo:
        here = todo.pop().node
        if here is node:
            return True
        if here is not None and id(here) not in seen:
            seen.add(id(here))
            todo.extend(here.inputs)
    return False


def _largest_shrink(
    function: Function, decode: Node, shrinks: Sequence[Node], elements: Any
) -> tuple[Node, list[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]]:
    """Return what shrinks pictures most, and for each of them its size decoded, before that and after it."""
    wanted = [decode.output(), *(value for node in shrinks for value in (node.inputs[0], node.output()))]
    sizes = [[_sides(tensor.shape) for tensor in each] for each in mapped(elements, function, wanted)]
    pictures = [place for place in range(1, len(wanted), 2) if None not in sizes[0][place : place + 2]]
    if sizes[0][0] is None or not pictures:
        raise CannotRun("it cannot be told which of its tensors are pictures", do="try it in the script")

    def pixels(place: int) -> float:
        return float(sum(each[place][0] * each[place][1] for each in sizes))

    best = min(pictures, key=lambda place: pixels(place + 1) / max(1.0, pixels(place)))
    return shrinks[best // 2], [(each[0], each[best], each[best + 1]) for each in sizes]


def _sides(shape: Any) -> Any:
    """Return height and width: of a picture with channels, alone or in a batch."""
    return (int(shape[-3]), int(shape[-2])) if len(shape) >= 3 else None


def kept(data: Any) -> tuple[Any, int]:
    """Keep some elements in memory, as many as can be read in time."""
    count, start = 0, time.monotonic()
    for _ in data.take(ELEMENTS):
        count += 1
        if time.monotonic() - start > SECONDS / 2:
            break
    if count == 0:
        raise CannotRun("the pipeline gave no element", do="try it with data that can be read twice")
    cached = data.take(count).cache()
    for _ in cached:
        pass
    return cached, count


def _of_rank(value: Value, make: Callable[..., Any]) -> Callable[..., Any]:
    """Let a picture take the place of a tensor that holds it as a batch of one: resizes work on batches."""
    assert value.node is not None
    rank = value.node.op.outputs[value.index].shape.rank

    def made(*parts: Any) -> Any:
        picture = make(*parts)
        return picture[None] if rank is not None and picture.shape.rank == rank - 1 else picture

    return made


def raw(tensor: Any) -> bytes:
    """Return the bytes of a tensor, of strings too."""
    value = tensor.numpy()
    if isinstance(value, bytes):
        return value
    return b"".join(value.ravel().tolist()) if value.dtype == object else bytes(value.tobytes())


def _options(dataset: Any, serial: bool) -> Any:
    options = sys.modules["tensorflow"].data.Options()
    if serial:
        # TensorFlow would make a part of it parallel that draws no random numbers.
        options.experimental_optimization.map_parallelization = False
    return dataset.options().merge(options)


def copied(node: Node, inputs: Sequence[Any]) -> Any:
    """Return the picture that the user's own decoding gives."""
    return copy_of(node, list(inputs)).outputs[0]


def resized(picture: Any, size: tuple[int, int], shrink: Node) -> Any:
    """Bring a picture to a size as the user's own resize does."""
    tf = sys.modules["tensorflow"]
    return tf.image.resize(picture, size, RESIZES[shrink.kind], antialias=shrink.kind == "ScaleAndTranslate")


def cropped(picture: Any, size: tuple[int, int]) -> Any:
    """Cut a part of this size out of the middle of a picture."""
    sides = sys.modules["tensorflow"].shape(picture)
    top, left = (sides[0] - size[0]) // 2, (sides[1] - size[1]) // 2
    return picture[top : top + size[0], left : left + size[1]]
