"""Runs one case on real loaders and prints what came of it, as JSON."""

import json
import multiprocessing
import random
import sys
import time

import keras
import numpy as np
import torch

from fitdoctor.errors import CannotRun
from fitdoctor.rewrites import workers
from fitdoctor.rewrites.loader_batches import compare, identity
from fitdoctor.rewrites.loader_copies import in_threads, with_processes
from fitdoctor.rewrites.processes import in_processes
from fitdoctor.rewrites.workers import optimize_loader

BATCHES = 9


class Rows(keras.utils.PyDataset):
    """Deterministic; the last batch is short."""

    batches = BATCHES

    def __init__(self, scale, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale
        self.x = np.arange(8 * self.batches - 3, dtype="float32")[:, None]

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        rows = self.x[index * 8 : (index + 1) * 8]
        return rows * self.scale, rows


class Slow(Rows):
    """Waits for a store that is away; long enough that starting threads in every epoch does not outweigh them."""

    batches = 60

    def __getitem__(self, index):
        time.sleep(0.01)  # the round trip to the store
        return super().__getitem__(index)


class Busy(Rows):
    """Computes in Python."""

    def __getitem__(self, index):
        self.worked = sum(step * step % 7 for step in range(60_000))
        return super().__getitem__(index)


class Random(Rows):
    def __getitem__(self, index):
        return np.random.rand(4), np.array([random.random()])


class OwnGenerator(Rows):
    def __init__(self):
        super().__init__(1)
        self.rng = np.random.default_rng(3)

    def __getitem__(self, index):
        return self.rng.standard_normal(4), np.zeros(4)


class Stuck(Rows):
    def __getitem__(self, index):
        if multiprocessing.parent_process() is not None:
            time.sleep(60)  # no round trip at all: a lock that nobody gives back
        return super().__getitem__(index)


class Changing(Rows):
    def on_epoch_end(self):
        self.scale += 1


class Unsteady(Slow):
    """Counts how often a batch was asked for; what it gives changes with that, but not every time."""

    batches = 30

    def __init__(self):
        super().__init__(1)
        self.calls = {}

    def __getitem__(self, index):
        self.calls[index] = self.calls.get(index, 0) + 1
        x, y = super().__getitem__(index)
        return x + self.calls[index] // 50, y


class Counting(Slow):
    """Counts calls where nobody looks."""

    batches = 30
    calls = 0

    def __getitem__(self, index):
        Counting.calls += 1
        x, y = super().__getitem__(index)
        return x + Counting.calls // 40, y


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 50

    def __getitem__(self, index):
        return torch.full((2,), float(index)), index


class Named(torch.utils.data.DataLoader):
    """A loader whose constructor takes other arguments."""

    def __init__(self, title, batch_size):
        self.title = title
        super().__init__(Samples(), batch_size=batch_size, shuffle=True, collate_fn=together, drop_last=True)


def together(rows):
    return torch.stack([row for row, _ in rows]) * 2, torch.tensor([place for _, place in rows])


def draws(dataset, epochs=2):
    """Return what each batch of several epochs drew, as Keras pulls them."""
    from keras.src.trainers.data_adapters import get_data_adapter

    adapter = get_data_adapter(x=dataset, shuffle=False)
    seen = []
    for _ in range(epochs):
        adapter.on_epoch_begin()
        batches = adapter.get_numpy_iterator()
        seen.append([repr([np.asarray(leaf).tolist() for leaf in next(batches)]) for _ in range(BATCHES)])
        adapter.on_epoch_end()
    return seen


def order(loader, epochs=3, unused=False):
    seen = []
    for _ in range(epochs):
        if unused:
            iter(loader)  # as Keras does at the end of an epoch
        seen.append([identity(batch) for batch in loader])
    return seen


def children():
    return len(multiprocessing.active_children())


def case_kept_loaders_keep_the_order():
    found = {}
    for workers_, unused in ((0, False), (0, True), (2, False), (2, True)):
        for seeded in (True, False):

            def make(workers_=workers_, seeded=seeded):
                generator = torch.Generator().manual_seed(5) if seeded else None
                torch.manual_seed(5)
                return torch.utils.data.DataLoader(
                    Samples(), batch_size=8, shuffle=True, generator=generator, num_workers=workers_
                )

            expected = order(make(), unused=unused)
            kept = with_processes(make(), 2, keep=True)
            found[f"{workers_} {unused} {seeded}"] = order(kept, unused=unused) == expected
            kept._iterator._shutdown_workers()
    return found


def case_every_attribute_is_kept():
    own = Named("pictures", 8)
    copy = with_processes(own, 2, keep=True)
    changed = {name for name, value in vars(own).items() if vars(copy)[name] is not value}
    own_order = torch.get_rng_state()
    expected = order(own, 1)
    torch.set_rng_state(own_order)
    found = order(copy, 1)
    copy._iterator._shutdown_workers()
    rows = Rows(3, workers=1)
    threads = in_threads(rows, 4)
    return {
        "changed": sorted(changed),
        "title": copy.title,
        "is": isinstance(copy, Named),
        "equal": found == expected,
        "threads": [threads.workers, rows.workers, threads.x is rows.x],
    }


def case_streams_differ_and_repeat():
    found = {}
    for kind in (Random, OwnGenerator):
        runs = []
        for seed in (1, 1, 2):
            keras.utils.set_random_seed(seed)
            dataset, crew = in_processes(kind(1) if kind is Random else kind(), 2)
            runs.append(draws(dataset))
            crew.stop()
        every = [batch for epoch in runs[0] for batch in epoch]
        found[kind.__name__] = {
            "all differ": len(set(every)) == 2 * BATCHES,
            "same seed": runs[0] == runs[1],
            "other seed": not set(map(str, every)) & {batch for epoch in runs[2] for batch in epoch},
        }
    return {**found, "children": children()}


def case_what_changes_between_epochs_reaches_the_processes():
    dataset, crew = in_processes(Changing(1), 2)
    plain = draws(Changing(1))
    found = draws(dataset)
    crew.stop()
    return {"equal": plain == found, "differ": found[0] != found[1], "children": children()}


def case_a_process_that_is_stuck_is_ended():
    dataset, _ = in_processes(Stuck(1), 2, limit=1.0)
    start = time.monotonic()
    try:
        draws(dataset)
        said = ""
    except CannotRun as error:
        said = error.problem
    return {"said": said, "seconds": time.monotonic() - start, "children": children()}


def told(result):
    return {"kept": result.kept, "dropped": dict(result.dropped), "explanation": result.explanation}


def case_threads_for_what_waits():
    data = Slow(2)
    result = optimize_loader(data, budget=10)
    return {**told(result), "own": data.workers, "equal": compare(data, result.dataset, 5).equal}


def case_processes_for_what_computes():
    data = Busy(2)
    result = optimize_loader(data, budget=12)
    equal = compare(data, result.dataset, 5).equal
    crew = vars(result.dataset).get("_crew")
    if crew is not None:
        crew.stop()
    return {**told(result), "equal": equal, "children": children()}


def case_random_numbers_need_consent():
    keras.utils.set_random_seed(3)
    state = np.random.get_state()[1].tolist(), random.getstate()
    refused = optimize_loader(Random(1), budget=5)
    own = optimize_loader(OwnGenerator(), budget=5)
    return {
        "refused": told(refused),
        "own": told(own),
        "state": (np.random.get_state()[1].tolist(), random.getstate()) == state,
    }


def case_batches_are_kept_with_consent():
    data = Slow(2, workers=4)
    result = optimize_loader(data, budget=14, unsafe=True)
    equal = compare(data, result.dataset, 8)
    first = result.dataset[0][0]
    first += 1
    others = {
        name: told(optimize_loader(each, budget=8, unsafe=True))
        for name, each in (
            ("random", OwnGenerator()), ("changing", Changing(1)), ("unsteady", Unsteady()), ("counting", Counting(1))
        )
    }  # fmt: skip
    return {
        **told(result),
        "equal": equal.equal and equal.whole,
        "untouched": bool((result.dataset[0][0] == data[0][0]).all()),
        "length": len(result.dataset),
        **others,
    }


def case_a_wrong_rewrite_is_dropped():
    workers.in_threads = lambda data, count: Slow(data.scale + 1, workers=count)
    return told(optimize_loader(Slow(2), budget=8))


def case_a_loader_gets_workers():
    class Waiting(Samples):
        def __getitem__(self, index):
            time.sleep(0.002)  # the round trip to the store
            return super().__getitem__(index)

    loader = torch.utils.data.DataLoader(Waiting(), batch_size=8, shuffle=True)
    result = optimize_loader(loader, budget=15)
    equal = compare(loader, result.dataset, 5).equal
    if result.dataset is not loader:
        result.dataset._iterator._shutdown_workers()
    return {**told(result), "equal": equal, "own": loader.num_workers, "children": children()}


if __name__ == "__main__":
    print(json.dumps({name: globals()[f"case_{name}"]() for name in sys.argv[1:]}))
