"""What the rules about repeated tracing and compiling have in common: what it costs, and in which words."""

from __future__ import annotations

from fitdoctor import units
from fitdoctor.facts.again import Again
from fitdoctor.facts.step_model import StepModel
from fitdoctor.facts.training import Training
from fitdoctor.model import Change, Cost, Interval, Site

PART = "compiling again"


def cost_of(again: Again, training: Training, model: StepModel, why: str, paid: Interval | None = None) -> Cost:
    """Return what one function's repeated compiling costs; `paid`: seconds that avoiding it takes elsewhere."""
    whole = max(sum(each.projected_s for each in training.again), 1e-12)
    share = min(1.0, again.projected_s / whole)
    least = min(share, again.seconds * again.growth.low * (1 - again.spread) / whole)
    most = min(1.0, share * (1 + again.spread))
    slower = again.always or (again.mostly and model.work_alone is not None)
    also = (Change("work", model.stays_untraced()),) if slower else ()
    change = Change(PART, Interval(1 - most, 1 - share, 1 - least), once=paid or Interval.exact(0.0), also=also)
    later = round(again.count * again.growth.mid)
    until = f", about {later} times until its end" if later > 1.5 * again.count else ""
    return Cost(
        saving=model.with_change(change).saving(),
        because=f"{again.name} was {why}: {again.count} times more{until}, {units.duration(again.each_s)} each time",
        site=_site(again),
        change=change,
        evidence={
            "function": again.name,
            "cause": again.cause,
            "times": again.count,
            "seconds": again.seconds,
            "projected_times": {
                "low": again.count * again.growth.low,
                "mid": again.count * again.growth.mid,
                "high": again.count * again.growth.high,
            },
            "argument": again.argument,
            "was": again.was,
            "now": again.now,
        },
    )


def _site(again: Again) -> Site | None:
    """Return where the edit goes: a value is passed by the call, everything else belongs to the function."""
    return again.line if again.cause == "value" or again.site is None else again.site


def told(again: Again) -> str:
    """Say what was new about it."""
    if not again.argument:
        return "another shape of its arguments"
    if again.cause == "structure":
        return f"{again.argument}, which is of another kind ({again.was or 'nothing'}, then {again.now or 'nothing'})"
    what = {"value": "every value of", "object": "another object as"}.get(again.cause, f"every {again.cause} of")
    numbers = again.numbers
    between = f", between {min(numbers):g} and {max(numbers):g}" if len(numbers) > 2 else ""
    return f"{what} {again.argument} ({again.was}, then {again.now}{between})"
