from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

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
        elsewhere={name: draw(seconds) for name in ("validation", "epoch callbacks", "saving")},
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
    better = Change(change.part, change.remaining.scale(factor), change.overlap)
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


@given(models(), changes)
def test_nothing_is_mutated(model: StepModel, change: Change) -> None:
    before = (model.step, dict(model.parts), dict(model.elsewhere))
    model.with_change(change)
    assert (model.step, dict(model.parts), dict(model.elsewhere)) == before


def ends(model: StepModel, several: list[Change]) -> tuple[float, float, float]:
    saving = apply(model, several).saving()
    return saving.low, saving.mid, saving.high
