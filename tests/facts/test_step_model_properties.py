from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from fitdoctor.facts import rows
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.trials import Alone
from fitdoctor.model import PARTS, Change, Interval

# Clocks count nanoseconds.
seconds = st.integers(0, 10**10).map(lambda ns: ns / 1e9)
shares = st.lists(st.floats(0, 1), min_size=3, max_size=3).map(Interval.around)
changes = st.builds(
    Change,
    part=st.sampled_from([*PARTS, "work", "step", "validation", "epoch callbacks", "saving"]),
    remaining=shares,
    overlap=st.booleans(),
    rehearsed=st.booleans(),
)


alone = st.one_of(
    st.none(), st.builds(Alone, st.lists(seconds, min_size=3, max_size=3).map(Interval.around), st.floats(0, 8))
)


@st.composite
def models(draw: st.DrawFn) -> StepModel:
    parts = {}
    for part in PARTS:
        mid = draw(seconds)
        parts[part] = Interval(mid * draw(st.floats(0, 1)), mid, mid * draw(st.floats(1, 2)))
    step = sum(part.mid for part in parts.values())
    return StepModel(
        step=Interval(step * 0.9, step, step * 1.1),
        parts=parts,
        works_ahead=draw(st.booleans()),
        cpu_s=draw(st.one_of(st.none(), seconds)),
        cores=draw(st.sampled_from([None, 1.0, 4.0])),
        planned_steps=draw(st.floats(1, 1e5)),
        input_alone=draw(alone),
        work_alone=draw(alone),
        elsewhere={name: draw(seconds) for name in ("validation", "epoch callbacks", "saving", "pause")},
        pauses_follow=draw(st.booleans()),
    )


@given(models(), changes, changes)
def test_what_a_fix_does_elsewhere_counts_as_if_it_were_another(model: StepModel, one: Change, other: Change) -> None:
    assert ends(model, [replace(one, also=(other,))]) == ends(model, [one, other])


def apply(model: StepModel, several: list[Change]) -> StepModel:
    for change in several:
        model = model.with_change(change)
    return model


@given(models(), st.lists(changes, min_size=1, max_size=4))
def test_the_middles_sum_to_the_step(model: StepModel, several: list[Change]) -> None:
    after = apply(model, several)
    assert abs(sum(part.mid for part in after.parts.values()) - after.step.mid) <= 1e-9 * (1 + model.step.mid)
    assert all(part.low >= 0 for part in after.parts.values())


@given(models(), changes)
def test_a_cheaper_part_never_makes_a_slower_step(model: StepModel, change: Change) -> None:
    after = model.with_change(change)
    assert after.step.mid <= model.step.mid + 1e-9
    assert after.step.high <= model.step.mid + 1e-9
    assert after.saving().low >= 0


@given(models(), changes, st.floats(0, 1))
def test_a_better_fix_never_saves_less(model: StepModel, change: Change, factor: float) -> None:
    better = replace(change, remaining=change.remaining.scale(factor))
    for worse, best in zip(ends(model, [change]), ends(model, [better]), strict=True):
        assert best >= worse - 1e-9


@given(models(), st.lists(changes, min_size=2, max_size=4))
def test_a_set_never_saves_less_than_its_best_member(model: StepModel, several: list[Change]) -> None:
    for together, *alone in zip(ends(model, several), *(ends(model, [each]) for each in several), strict=True):
        assert together >= max(alone) - 1e-9


@given(models(), st.lists(changes, min_size=2, max_size=3))
def test_the_order_of_fixes_does_not_matter(model: StepModel, several: list[Change]) -> None:
    results = [apply(model, list(order)).step.mid for order in itertools.permutations(several)]
    assert max(results) - min(results) <= 1e-9 * (1 + model.step.mid)


@given(models(), changes, seconds, seconds)
def test_what_a_fix_costs_once_is_taken_from_what_it_saves(
    model: StepModel, change: Change, less: float, more: float
) -> None:
    cheap, dear = (replace(change, once=Interval.exact(each)) for each in sorted((less, more)))
    apart = abs(more - less) / model.whole_s if model.whole_s > 0 else 0.0
    for free, least, most in zip(*(ends(model, [each]) for each in (change, cheap, dear)), strict=True):
        assert free >= least - 1e-9
        assert least - apart - 1e-9 <= most <= least + 1e-9


def closer(interval: Interval, factor: float) -> Interval:
    """Return what more evidence with the same middle leaves of an interval."""
    low, mid, high = interval.low, interval.mid, interval.high
    return Interval(max(low, mid - factor * (mid - low)), mid, min(high, mid + factor * (high - mid)))


@given(models(), changes, st.floats(0, 1))
def test_the_saving_of_a_fix_that_is_known_better_lies_within_the_one_before(
    model: StepModel, change: Change, factor: float
) -> None:
    wide = model.with_change(change).saving()
    known = model.with_change(replace(change, remaining=closer(change.remaining, factor))).saving()
    assert wide.low - 1e-9 <= known.low
    assert known.high <= wide.high + 1e-9


@given(models(), changes, st.floats(0, 1))
def test_the_saving_on_a_step_that_is_known_better_lies_within_the_one_before(
    model: StepModel, change: Change, factor: float
) -> None:
    # Side by side the two ends of a part need not be the two ends of a saving; in turns they are.
    model = replace(model, works_ahead=False, input_alone=None, work_alone=None, cpu_s=None)
    change = replace(change, overlap=False)
    tight = replace(model, parts={part: closer(each, factor) for part, each in model.parts.items()})
    wide, known = model.with_change(change).saving(), tight.with_change(change).saving()
    assert wide.low - 1e-9 <= known.low
    assert known.high <= wide.high + 1e-9


@given(st.lists(st.integers(1, 10**9), min_size=3, max_size=8), st.integers(2, 4))
def test_the_same_again_and_again_narrows_what_a_trial_says(values: list[int], times: int) -> None:
    once, often = rows.median(values), rows.median(values * times)
    assert once.mid == often.mid
    assert min(values) <= often.low
    assert often.high <= max(values)
    assert often.high - often.low <= (once.high - once.low) * 1.25 + 1e-9, "a bootstrap draws by chance"


@given(models(), changes)
def test_nothing_is_mutated(model: StepModel, change: Change) -> None:
    before = (model.step, dict(model.parts), dict(model.elsewhere))
    model.with_change(change)
    assert (model.step, dict(model.parts), dict(model.elsewhere)) == before


def ends(model: StepModel, several: list[Change]) -> tuple[float, float, float]:
    saving = apply(model, several).saving()
    return saving.low, saving.mid, saving.high
