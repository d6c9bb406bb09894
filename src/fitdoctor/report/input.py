"""The input as a person reads it in a terminal.

Top to bottom: who waits for whom; what bounds the input; the pipeline as elements pass it, each operator with what it
gives, costs and waits, its line and what is special about it; what AUTOTUNE chose; what is not known, and the remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath

from rich.console import Console

from fitdoctor import units
from fitdoctor.facts.batch_making import BatchMaking
from fitdoctor.facts.input_stages import Stage
from fitdoctor.facts.input_view import InputView
from fitdoctor.facts.live_pipeline import Setting
from fitdoctor.facts.loader_setup import LoaderSetup
from fitdoctor.model import Interval, Site
from fitdoctor.report.page import Page, Piece

SourceOf = Callable[[Site], "list[str] | None"]
_COLUMNS = (("alone gives", 12), ("own per step", 15), ("CPU", 9), ("waits", 8), ("at once", 8), ("buffer", 13))
_NAME = 15
_ROOM = _NAME + sum(width for _, width in _COLUMNS)
_PATH_MOST = 40
_LINES = 5
"""Hot lines that are shown."""
_HANDS_ON = frozenset({"Cache", "Prefetch", "Options", "Repeat", "Take", "Skip"})
"""A cache right after one of these, or after a source, is no idea."""


def render(view: InputView, console: Console, source_of: SourceOf | None = None) -> None:
    """Print it; `source_of` gives all lines of a site's file, or None where they are not known."""
    page = Page(console)
    dot = f" {page.glyph('·', '-')} "
    words = ["fitdoctor input", view.script, view.adapter, view.backend]
    page.paragraph((dot.join(word for word in words if word), "dim"))
    page.blank()
    page.paragraph((view.waits, "bold"))
    if view.bound is not None:
        page.paragraph(view.bound)
    if view.loader is not None:
        _loader(page, view.loader, source_of)
    if view.making is not None:
        _making(page, view.making, source_of)
    if view.stages:
        _pipeline(page, view, source_of)
    _functions(page, view)
    if view.autotune:
        page.heading("What did AUTOTUNE choose?")
        for line in view.autotune:
            page.paragraph(line, indent=2, hang=4)
    _unknown(page, view)


# --- tf.data ------------------------------------------------------------------------------------------


def _pipeline(page: Page, view: InputView, source_of: SourceOf | None) -> None:
    whose = "The pipeline" if view.loader is None else "Keras's own pipeline behind it"
    page.heading(whose, "  as elements pass it")
    wide = page.width >= _ROOM
    if wide:
        cells = "".join(title.rjust(width) for title, width in _COLUMNS)
        page.line((f"{'':{_NAME}}{cells}", "dim"))
    shown: Site | None = None
    for stage in view.stages:
        if stage.op == "Options":
            continue  # settings, through which nothing passes
        mark = page.glyph("▸", ">") if stage.slowest else " "
        beside = page.glyph("┊", ":") if stage.branch else " "
        name = page.fit(stage.op, _NAME - 3)
        style = "bold red" if stage.slowest else "bold" if stage.place is not None else "dim"
        head: list[Piece] = [(f"{mark}{beside} ", "red" if stage.slowest else "dim"), (f"{name:{_NAME - 3}}", style)]
        values = [page.clean(cell) for cell in _cells(stage)]
        if wide:
            page.line(*head, *(value.rjust(width) for value, (_, width) in zip(values, _COLUMNS, strict=True)))
        else:
            page.line(*head)
            said = [f"{title} {value}" for value, (title, _) in zip(values, _COLUMNS, strict=True) if value not in "?-"]
            if said:
                page.paragraph(", ".join(said), indent=5)
        if stage.site is not None and stage.site != shown:
            _code(page, stage.site, source_of)
        shown = stage.site
        _below(page, stage)
    if wide and any(stage.wall is not None for stage in view.stages):
        page.paragraph(
            ("Own times are per step, with the pipeline pulled alone up to each operator; ± holds 19 times in 20. ( ): "
             "only in the first epoch. ?: not known.", "dim"), indent=2,
        )  # fmt: skip


def _cells(stage: Stage) -> Iterator[str]:
    yield f"{units.count(stage.rate.mid)}/s" if stage.rate is not None else "?"
    own = units.duration_short(stage.wall) if stage.wall is not None else "?"
    yield f"({own})" if stage.cached and stage.wall is not None else own
    yield _time(stage.cpu)
    yield _time(stage.waiting)
    yield _setting(stage.parallel) if stage.parallel is not None else "-"
    if stage.buffer is None:
        yield "-"
    elif stage.fill is None:
        yield _setting(stage.buffer)
    else:
        yield f"{100 * stage.fill:.0f} % of {stage.buffer.value:.0f}"


def _time(seconds: Interval | None) -> str:
    if seconds is None:
        return "?"
    return units.duration(seconds.mid) if seconds.mid > 0 else "0"


def _setting(setting: Setting) -> str:
    return f"{setting.value:.0f} auto" if setting.tuned else f"{setting.value:.0f}"


def _below(page: Page, stage: Stage) -> None:
    """Print sizes, and what is special about an operator."""
    told = [*_sizes(stage), *stage.notes]
    if told:
        page.paragraph(("; ".join(told), "dim" if stage.place is None or not stage.notes else "yellow"), indent=5)


def _code(page: Page, site: Site, source_of: SourceOf | None, indent: int = 5) -> None:
    where = f"{page.tail(PurePath(site.path).name, _PATH_MOST)}:{site.line}"
    lines = source_of(site) if source_of is not None else None
    code = lines[site.line - 1].strip() if lines and 1 <= site.line <= len(lines) else ""
    rest = page.fit(f"  {code}", page.width - indent - len(where)) if code else ""
    page.line(" " * indent, (where, "cyan"), (rest, ""))


def _sizes(stage: Stage) -> Iterator[str]:
    if stage.per_step is not None and stage.per_step != 1:
        yield f"{units.count(stage.per_step)} per step"
    if stage.bytes_each:
        yield f"{units.size(stage.bytes_each)} each"
    threads = stage.parallel is not None or stage.wall is None
    if stage.busy is not None and threads and stage.busy.mid > 0:
        yield f"in the run {units.duration(stage.busy.mid)} each on its threads"
    works = stage.inputs and not stage.branch and stage.op not in _HANDS_ON
    if stage.cache_bytes and stage.repeats and works and not stage.cached:
        yield f"a cache here would hold {units.size(stage.cache_bytes)}"


# --- everything else ----------------------------------------------------------------------------------


def _loader(page: Page, loader: LoaderSetup, source_of: SourceOf | None) -> None:
    page.heading("The loader", f"  {loader.name or loader.kind}")
    if loader.site is not None:
        _code(page, loader.site, source_of, indent=2)
    rows: list[tuple[str, str]] = []
    if loader.workers is not None:
        kind = "processes" if loader.processes else "threads"
        rows.append(("workers", f"{loader.workers} {kind}" if loader.workers else "none: the training thread loads"))
    if loader.queue is not None:
        rows.append(("queue", f"at most {loader.queue} batches ready"))
    rows.append(("ahead", "the next batch is prepared while the step runs" if loader.ahead else "no: they take turns"))
    if loader.batch_size is not None:
        rows.append(("batch", f"{loader.batch_size} samples"))
    if loader.batches is not None:
        rows.append(("epoch", f"{loader.batches:,} batches"))
    if loader.bytes:
        rows.append(("arrays", units.size(loader.bytes)))
    if loader.batch is not None:
        rows.append(("one batch", f"{units.duration_range(loader.batch)}, pulled alone"))
    if loader.cpu is not None and loader.waiting is not None:
        rows.append(("on the CPU", units.duration_range(loader.cpu)))
        rows.append(("waiting", units.duration_range(loader.waiting)))
    for label, value in rows:
        page.entry(f"  {label}", value, style="bold", column=14)


def _making(page: Page, making: BatchMaking, source_of: SourceOf | None) -> None:
    rows = list(_made(making))
    if not rows and not making.lines:
        return
    where = "alone, on one thread" if making.alone else "in the run, beside the step"
    page.heading("Making a batch", f"  {where}" if making.batch is not None else "")
    for label, value in rows:
        page.entry(f"  {label}", value, style="bold", column=14)
    for line in making.lines[:_LINES]:
        page.entry(f"  {units.percent(line.share)}", f"in {line.site.symbol or 'this line'}", style="bold", column=14)
        _code(page, line.site, source_of)


def _made(making: BatchMaking) -> Iterator[tuple[str, str]]:
    if making.batch is not None:
        yield "takes", units.duration_range(making.batch)
    if making.cpu is not None and making.waiting is not None:
        yield "on the CPU", units.duration_range(making.cpu)
        yield "waiting", units.duration_range(making.waiting)
    if making.gil_held is not None:
        whose = f", {units.percent(making.gil_training or 0.0)} by the training thread"
        yield "the GIL", f"held at least {units.percent(making.gil_held)} of the time of the steps{whose}"
    if making.ready is not None:
        yield "ready", f"{making.ready:.1f} batches when the next was asked for, on average"
    if making.late is not None:
        early = f", {units.percent(making.out_of_order)} of those while a later one was" if making.out_of_order else ""
        yield "late", f"{units.percent(making.late)} of the batches were not ready{early}"
    if making.start_s is not None:
        yield "start-up", f"{units.duration(making.start_s)} from the start of workers to their first batch"
    if making.stop_s is not None:
        yield "stopping", f"{units.duration(making.stop_s)} to end the workers"


def _functions(page: Page, view: InputView) -> None:
    if not view.functions:
        return
    page.heading("Python inside the pipeline")
    for each in view.functions:
        where = f" at {PurePath(each.site.path).name}:{each.site.line}" if each.site is not None else ""
        share = f"{units.duration(each.cpu_each)} of it on the CPU"
        page.paragraph(
            f"{each.name}{where}: {units.duration(each.wall_each)} per call, {share}, {each.count:,} calls timed",
            indent=2,
            hang=4,
        )


def _unknown(page: Page, view: InputView) -> None:
    if not view.gaps:
        return
    page.heading("Not known")
    arrow = page.glyph("→", "->")
    for gap in view.gaps:
        page.paragraph((gap.what, "yellow"), f": {gap.reason}", indent=2, hang=4)
        if gap.remedy:
            page.paragraph(gap.remedy, indent=4, lead=(f"{arrow} ", "dim"))
