"""Single rows are read from a file that is stored in chunks.

## What is wrong

HDF5 and Zarr files are stored, and compressed, in chunks of many rows.  Whoever asks for one row makes the library read
and unpack the whole chunk, and whoever asks for rows in a random order does so for every row: most of what is read is
thrown away.

## How it is established

Reads through h5py and Zarr are counted inside the run: bytes that were used, bytes of the chunks they needed.  The lab
then made the last of the user's reads again, in turns with as many rows read chunk by chunk, the chunks in a random
order and the rows within each too.  The gain of the step follows from the step model.

Measured on two cores: rows of 12 KiB from gzip chunks of 64 rows, in random order, took 66 times as long as chunk by
chunk; from chunks of 8 rows 8 times; from chunks of one row there was no difference.  A read in the file's own order is
no problem either, as long as a chunk fits into HDF5's cache (1 MiB unless `rdcc_nbytes` says otherwise).  Parquet is
not watched.

## What to do

HDF5, and all chunks fit into memory: give `h5py.File` a cache that holds them unpacked (`rdcc_nbytes`, with about ten
slots per chunk, `rdcc_nslots`).  Each chunk is then unpacked once, and every read gives what it gave before.
(HDF5 shares a file that is open already: the first to open it decides.)

Else shuffle the chunks instead of the rows, read a whole chunk at a time, and shuffle the rows within it (or within a
few chunks that are held in memory): the model sees the samples in another order.  Or write the file again with chunks
of one sample, or of one batch; then any order is cheap.

## When it is not worth it

When the step does not wait for input; when chunks are as small as what is asked for.

## Example

    for i in rng.permutation(len(x)): batch.append(x[i])                      # slow
    h5py.File(path, "r", rdcc_nbytes=64 * 1024**2)                            # fast, where all of it fits
    for c in rng.permutation(len(x) // 64): rows = x[64 * c : 64 * (c + 1)]   # fast
    f.create_dataset("x", data=x, chunks=(1, *x.shape[1:]), compression="lzf") # fast
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fitdoctor import units
from fitdoctor.edits import Arguments
from fitdoctor.errors import MissingEvidence
from fitdoctor.facts import rows, spots
from fitdoctor.facts.source_tree import FoundCall, SourceTree
from fitdoctor.facts.step_model import StepModel, input_change
from fitdoctor.facts.training import Training
from fitdoctor.facts.trials import Trials
from fitdoctor.model import Cost, Fix, Gap, Interval, Site
from fitdoctor.rules import Absent, Clear, Verdict

EXPERIMENT = "chunk by chunk"
WASTE = 1.2
"""Bytes of chunks per byte used up to which nothing is wasted worth speaking of; the lab begins there too."""
FREE = 0.25
"""Share of the free memory that a cache of chunks may take."""
SLOTS = 521
"""Of HDF5's cache by default; chunks that share one drive each other out."""
_MIB = 1 << 20
_FILE = ("name", "mode")
_LIBRARIES = ("h5py", "zarr")


def locate(source: SourceTree) -> Iterator[Site]:
    """Find nothing: how a file is stored does not stand in the source that reads it."""
    del source
    return iter(())


def place(source: SourceTree) -> Iterator[Site]:
    """Find where the file is opened."""
    for call in source.calls("h5py.File", "zarr.open", "zarr.open_array", "zarr.open_group"):
        yield call.site


def measure(training: Training, source: SourceTree | None, trials: Trials, model: StepModel) -> Verdict:
    """Take what chunk by chunk would cost from the experiment and the gain of the step from the model."""
    found = training.info.get("chunked")
    if not found:
        if training.info.get("multiprocessing") and source is not None and _imported(source):
            raise MissingEvidence(
                Gap(
                    "reads from chunked files",
                    "batches are made by worker processes, whose reads are not watched",
                    "run it once with threads, or without workers",
                )
            )
        return Absent("no HDF5 or Zarr file was read by this process while it trained")
    model.need("input")
    if model.share("input").high <= model.noise:
        return Clear("the step does not wait for input")
    waste = float(found["touched"]) / max(1.0, float(found["used"]))
    if waste <= WASTE:
        return Clear(f"what is read from {found['kind']} chunks is used: {units.size(found['used'])} of it")
    ratio, trial = trials.ratio("whole chunks", experiment=EXPERIMENT)
    if ratio.high >= 1:
        return Clear("whole chunks take just as long, row for row")
    per_step = float(found["rows"]) / max(1, training.steps + training.warmup_steps)
    reading = rows.median(trial.baseline_ns).scale(1e-9 * per_step / max(1, int(training.info.get("workers") or 1)))
    whole = model.input_alone.seconds if model.input_alone is not None else model.parts["input"]
    shares = [
        one * (1 - stays) / max(all_, 1e-12)
        for one, stays, all_ in (
            (reading.low, ratio.high, whole.high), (reading.mid, ratio.mid, whole.mid),
            (reading.high, ratio.low, whole.low),
        )
    ]  # fmt: skip
    change = input_change(Interval.around(1 - min(1.0, share) for share in shares), *model.without_loader_beside())
    site = found.get("site")
    return [
        Cost(
            saving=model.with_change(change).saving(),
            because=(
                f"{units.percent(1 / waste)} is used of each {units.size(float(found['chunk_bytes']))} chunk of "
                f"{found['chunk_rows']} rows that is read; chunk by chunk a row took {units.percent_range(ratio)} of "
                "the time"
            ),
            site=Site(str(site[0]), int(site[1])) if site else None,
            change=change,
            evidence={
                "kind": found["kind"],
                "read_per_used": waste,
                "chunk_bytes": found["chunk_bytes"],
                "chunk_rows": found["chunk_rows"],
                **_held(found),
                "ratio": {"low": ratio.low, "mid": ratio.mid, "high": ratio.high},
            },
        )
    ]


def _imported(source: SourceTree) -> bool:
    return any(name.split(".")[0] in _LIBRARIES for file in source.files for name in file.aliases.values())


def _held(found: Mapping[str, Any]) -> dict[str, int]:
    """Return the cache that holds all chunks unpacked; nothing where memory does not allow it."""
    size, free = found.get("all_bytes"), found.get("free_bytes")
    if found["kind"] != "HDF5" or not size or not free or size > FREE * free:
        return {}
    # A little more than they are: HDF5 keeps room for the chunk that comes next.
    return {"cache_mib": -(-int(size + found["chunk_bytes"]) // _MIB), "chunks": int(found["chunks"])}


def fix(cost: Cost, source: SourceTree | None) -> Fix | None:
    """Name the edit."""
    mib = cost.evidence.get("cache_mib")
    if mib:
        slots = 10 * int(cost.evidence.get("chunks", 0)) + 1
        give = [("rdcc_nbytes", f"{mib} * 1024**2"), *([("rdcc_nslots", str(slots))] if slots > SLOTS else [])]
        call = spots.the_only(_opened(source)) if source is not None else None
        edits = (Arguments(spots.spot(call), tuple(give), order=_FILE),) if call is not None else ()
        asked = ", ".join(f"{name}={code}" for name, code in give)
        return Fix(f"give {asked} to h5py.File: all chunks stay unpacked in memory", "same", edits=edits)
    count = cost.evidence.get("chunk_rows", "n")
    return Fix(
        f"shuffle the chunks and read {count} rows at a time, or write the file again in chunks of one sample",
        "may change",
    )


def _opened(source: SourceTree) -> Iterator[FoundCall]:
    """Find where HDF5 files are opened to be read."""
    for call in source.calls("h5py.File"):
        mode = call.argument(1, "mode")
        if mode is None or call.file.constant(mode) == "r":
            yield call
