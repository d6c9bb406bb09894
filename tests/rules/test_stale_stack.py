"""The table of versions on record as slow keeps its form."""

from __future__ import annotations

import datetime
import re

import pytest

from fitdoctor.rules.device import stale_stack


@pytest.mark.parametrize("entry", stale_stack.table()["entries"], ids=lambda each: f"{each['package']} {each['last']}")
def test_an_entry_is_complete_and_cited(entry: stale_stack.Entry) -> None:
    assert set(entry) == {"package", "first", "last", "when", "slow", "do", "links"}
    assert stale_stack.within(entry["first"], entry)
    assert stale_stack.within(entry["last"], entry)
    assert entry["links"]
    assert all(re.match(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+$", link) for link in entry["links"])
    assert entry["when"].keys() <= {"backend", "gpu", "layer", "steps_per_execution"}


def test_it_is_dated() -> None:
    assert (
        datetime.date.fromisoformat(stale_stack.table()["checked"])
        <= datetime.datetime.now(datetime.timezone.utc).date()
    )


@pytest.mark.parametrize(
    ("version", "inside"),
    [
        ("3.4.1", True),
        ("3.11.3", True),
        ("3.10", True),
        ("3.4", False),
        ("3.12.0", False),
        ("3.5.0.dev1", False),
        ("", False),
    ],
)
def test_ranges_hold_releases_alone(version: str, inside: bool) -> None:
    assert stale_stack.within(version, {"first": "3.4.1", "last": "3.11.3"}) is inside
