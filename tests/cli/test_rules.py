from __future__ import annotations

import pytest

from fitdoctor.model import FAMILIES
from fitdoctor.rules import all_rules
from tests.cli.conftest import Cli

FIRST = ("missing-prefetch", "python-map", "eager-step", "slow-callback")


def test_every_rule_is_listed_with_one_line(cli: Cli) -> None:
    done = cli("rules")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    assert {name for _, name, _ in lines} == {rule.name for rule in all_rules()} >= set(FIRST)
    order = [FAMILIES.index(family) for family, _, _ in lines]
    assert order == sorted(order)


@pytest.mark.parametrize("name", FIRST)
def test_every_rule_has_a_page(cli: Cli, name: str) -> None:
    done = cli("explain", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{name} (")
    assert len(done.stdout.splitlines()) > 10


def test_a_rule_that_does_not_exist(cli: Cli) -> None:
    done = cli("explain", "python-mop")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean `fitdoctor explain python-map`?" in done.stderr
    assert "fitdoctor rules" in cli("explain", "zzzzzz").stderr
