"""Durations, ratios and intervals as people read them: the only number formatter."""

from __future__ import annotations

from fitdoctor.model import Interval

_SECONDS_COUNT = 1199.5
"""Seconds; up to here a range in whole minutes would say too little."""

BOUNDLESS = 100.0
"""From so many times as fast on, the high end of a speed-up only says that nothing is known to stay."""


def duration(seconds: float) -> str:
    """Format a duration with about three significant digits: ``1.23 ms``, ``45.6 s``, ``2 min 43 s``, ``2 h 05 min``.

    >>> duration(0.00123), duration(45.6), duration(163), duration(1500), duration(7500)
    ('1.23 ms', '45.6 s', '2 min 43 s', '25 min', '2 h 05 min')
    """
    if seconds < 0:
        return "-" + duration(-seconds)
    if seconds == 0:
        return "0 s"
    for unit, factor in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if seconds * factor < 999.5:
            return f"{_three(seconds * factor)} {unit}"
    if seconds < 119.5:
        return f"{_three(seconds)} s"
    if seconds < _SECONDS_COUNT:
        return "{} min {:02d} s".format(*divmod(round(seconds), 60))
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def _three(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    if value >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}"


def percent(fraction: float) -> str:
    """Format a fraction: ``41 %``, ``0.4 %``.

    >>> percent(0.412), percent(0.004)
    ('41 %', '0.4 %')
    """
    value = 100 * fraction
    return f"{value:.1f} %" if abs(value) < 9.95 else f"{value:.0f} %"


def percent_range(interval: Interval) -> str:
    """Format an interval of fractions: ``41 % (38 to 44)``.

    >>> percent_range(Interval(0.38, 0.41, 0.44))
    '41 % (38 to 44)'
    """
    digits = 1 if abs(interval.high) < 0.0995 else 0
    return f"{percent(interval.mid)} ({100 * interval.low:.{digits}f} to {100 * interval.high:.{digits}f})"


def duration_range(interval: Interval) -> str:
    """Format an interval of seconds: ``12.3 ms (12.1 to 12.6 ms)``.

    >>> duration_range(Interval(0.0121, 0.0123, 0.0126))
    '12.3 ms (12.1 ms to 12.6 ms)'
    """
    return f"{duration(interval.mid)} ({duration(interval.low)} to {duration(interval.high)})"


def times(interval: Interval) -> str:
    """Format a speed-up: ``1.8× (1.5 to 2.1)``.

    >>> times(Interval(1.5, 1.84, 2.1))
    '1.8× (1.5 to 2.1)'
    >>> times(Interval(2.5, 5.4, 1000.0))
    '5.4× (at least 2.5)'
    """
    most = f"{interval.low:.1f} to {interval.high:.1f}" if interval.high < BOUNDLESS else f"at least {interval.low:.1f}"
    return f"{interval.mid:.1f}× ({most})"


def times_exact(interval: Interval) -> str:
    """Format a speed-up that was measured: ``1.84 (1.52 to 2.11) times``.

    >>> times_exact(Interval(1.52, 1.84, 2.11))
    '1.84 (1.52 to 2.11) times'
    """
    return f"{interval.mid:.2f} ({interval.low:.2f} to {interval.high:.2f}) times"


def size(count: float) -> str:
    """Format a number of bytes: ``1.5 GiB``.

    >>> size(1610612736)
    '1.50 GiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1023.5:
            return f"{count:.0f} {unit}" if unit == "B" else f"{_three(count)} {unit}"
        count /= 1024
    return f"{_three(count)} TiB"


def count(number: float) -> str:
    """Format how many, or how many per second, with three significant digits: ``2.41``, ``32``, ``1,230``.

    >>> count(2.412), count(32.0), count(1234.5)
    ('2.41', '32', '1,230')
    """
    if number < 999.5:
        return f"{number:.0f}" if number == round(number) else _three(number)
    digits = len(str(round(number))) - 3
    return f"{round(number, -digits):,.0f}"


def rate(interval: Interval, what: str) -> str:
    """Format an interval of things per second: ``35.2 batches/s (33 to 36.1)``.

    >>> rate(Interval(33.0, 35.2, 36.1), "batches")
    '35.2 batches/s (33 to 36.1)'
    """
    return f"{count(interval.mid)} {what}/s ({count(interval.low)} to {count(interval.high)})"


def duration_short(interval: Interval) -> str:
    """Format an interval of seconds for a narrow column: ``12.3 ms ±2 %``; its end where it may be nothing.

    >>> duration_short(Interval(0.0121, 0.0123, 0.0126)), duration_short(Interval(0.0, 0.001, 0.002))
    ('12.3 ms ±2 %', '≤ 2.00 ms')
    """
    if interval.low <= 0:
        return f"≤ {duration(interval.high)}" if interval.high > 0 else duration(0)
    return f"{duration(interval.mid)} ±{100 * (interval.high - interval.low) / 2 / interval.mid:.0f} %"


def per_second(interval: Interval, what: str) -> str:
    """Format a rate of very many: ``86.1 GFLOP/s (80.2 to 91.5)``.

    >>> per_second(Interval(80.2e9, 86.1e9, 91.5e9), "FLOP")
    '86.1 GFLOP/s (80.2 to 91.5)'
    """
    prefix, factor = next(
        (each for each in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)) if interval.mid >= 0.9995 * each[1]),
        ("", 1.0),
    )
    low, mid, high = (_three(each / factor) for each in (interval.low, interval.mid, interval.high))
    return f"{mid} {prefix}{what}/s ({low} to {high})"
