"""A tf.data pipeline with one thing changed at a time; each change gives the same data, or says that it may not."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

from fitdoctor.errors import CannotRun
from fitdoctor.lab.bench import FELT, Comparison, Seen
from fitdoctor.lab.job import Job, Offer
from fitdoctor.model import Gap
from fitdoctor.probes.cgroup import usable_cores
from fitdoctor.rewrites import candidates, purity
from fitdoctor.rewrites.candidates import Candidate, Refusal
from fitdoctor.rewrites.equality import Verdict, check
from fitdoctor.rewrites.pulling import LEAD_SECONDS, Puller, pace

NAME = "rewritten pipelines"
TRAINS = False
OFFERS = True
LONGER = "give it more time with --budget"
SECONDS = 1.0
"""How long a rewrite is compared with the original."""
WORK = frozenset({"Map", "ParallelMap", "Interleave", "ParallelInterleave", "FlatMap", "Filter"})


def worth(seen: Seen) -> float:
    """Weigh pipelines that do something to their elements: most causes of slow input are told by this alone."""
    if seen.info.get("adapter") != "tf.data":
        return 0.0
    works = any(each.get("op") in WORK for each in seen.info.get("dataset") or ())
    felt = seen.shares["fetch"] > FELT or seen.shares["between epochs"] > FELT
    return (40.0 if felt else 2.0) if works else 0.0


def comparisons(job: Job, seen: Seen) -> Iterator[Comparison | Gap]:
    """Pull batches from each rewrite, as the trainer would, in turns with the pipeline as it is."""
    dataset = job.given.get("x")
    if (name := purity.unwritten_cache(dataset)) is not None:
        yield Gap(f"experiment: {NAME}", f"the cache file {name} is not complete", "let one epoch run to its end first")
        return
    as_is = _blocks(job, None)
    known = candidates.Seen(pace(as_is), usable_cores())
    verdicts: dict[tuple[Any, ...], Verdict] = {}
    refused: dict[str, str] = {}
    tried: set[str] = set()
    for each in candidates.found(dataset, known):
        if time.monotonic() > job.until:
            yield Gap(f"experiment: {NAME}", "the budget was used up before all were compared", LONGER)
            break
        if isinstance(each, Refusal):
            refused.setdefault(each.rule, each.reason)
        elif each.hides:
            refused.setdefault(each.rule, "the work follows a shuffle; fitdoctor.optimize makes it before and keeps it")
        elif each.overlaps:
            job.offers.append(Offer(_name(each), each.rule, functools.partial(_given, each, dataset), overlaps=True))
        elif each.rule != "repeated-preprocessing" or (seen.info.get("epochs") or 1) > 1:
            # Counts of calls do not change what comes out.
            key = (each.rule, each.path)
            try:
                if key not in verdicts:
                    verdicts[key] = check(dataset, each, consents=True, seconds=SECONDS)
                verdict = verdicts[key]
                if not verdict and (each.safety == "same" or verdict.differs):
                    refused.setdefault(each.rule, f"not proved equal: {verdict.why}")
                    continue
                comparison = _comparison(job, dataset, each, verdict, as_is)
            except CannotRun as error:
                refused.setdefault(each.rule, error.problem)
                continue
            except Exception as error:
                # Functions that were never called by several threads may not bear it; the other rewrites may do.
                refused.setdefault(each.rule, f"with {each.settings} it fails: {type(error).__name__}")
                continue
            job.offers.append(Offer(comparison.name, each.rule, functools.partial(_given, each, dataset)))
            yield comparison
            tried.add(each.rule)
    for rule, reason in refused.items():
        if rule not in tried:
            yield Gap(f"experiment: rewrite {rule}", reason, Gap.DOES_NOT_APPLY)


def _blocks(job: Job, data: Any) -> Callable[[], float]:
    puller = Puller(job.passes(data))
    puller.block()
    return lambda: puller.block(lead=LEAD_SECONDS)


def _name(candidate: Candidate) -> str:
    return f"rewrite: {candidate.rule} [{candidate.settings}]"


def _given(candidate: Candidate, dataset: Any, whole: bool) -> dict[str, Any]:
    return {"x": ((None if whole else candidate.sample) or candidate.apply)(dataset)}


def _comparison(
    job: Job, dataset: Any, candidate: Candidate, verdict: Verdict, as_is: Callable[[], float]
) -> Comparison:
    changed = _blocks(job, _given(candidate, dataset, whole=False)["x"])
    site = candidate.site
    detail = {
        "unit": "ns per batch",
        "op": candidate.op,
        "stage": list(candidate.path),
        "site": [site.path, site.line] if site else None,
        "settings": candidate.settings,
        "code": candidate.code,
        "safety": candidate.safety,
        "equal": verdict.equal,
        "compared": verdict.compared,
        **dict(candidate.detail),
    }
    return Comparison(_name(candidate), changed, as_is, detail)
