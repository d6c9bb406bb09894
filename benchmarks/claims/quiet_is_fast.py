"""`verbose=0` makes training faster.

The same training with a progress bar that nobody sees (its output is thrown away) and without.
"""

from __future__ import annotations

from collections.abc import Iterator

from claims_kit import Case, compiled, conv_net, dense_net, on_arrays, pictures, rows

SAID = ("https://github.com/keras-team/keras/issues/102",)


def cases() -> Iterator[Case]:
    for name, build, data in (
        ("steps of about a millisecond", dense_net, rows(4096)),
        ("steps of some ten milliseconds", conv_net, pictures(256)),
    ):
        model = compiled(build())
        yield Case(name, on_arrays(model, data, verbose=1), on_arrays(model, data))
