from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking.conftest import EAGER, Check

LINE = 'model.compile("adam", "mse", run_eagerly=True)'


@pytest.mark.parametrize(
    "changed",
    [
        EAGER.replace(LINE, f"{LINE}  # fitdoctor: ignore[eager-step]"),
        EAGER.replace(LINE, f"{LINE}  # noqa: E501  # fitdoctor: ignore"),
        EAGER.replace(LINE, f"{LINE}  #fitdoctor:ignore[ python-map , eager-step ] debugging"),
        EAGER.replace(LINE, f"# fitdoctor: ignore[eager-step]\n{LINE}"),
        EAGER.replace(LINE, f"# fitdoctor: ignore[eager-step]\n# because\n\n{LINE}"),
        EAGER.replace(LINE, 'model.compile(\n "adam", "mse",\n run_eagerly=True,  # fitdoctor: ignore[eager-step]\n)'),
        f"{EAGER}# fitdoctor: ignore-file[eager-step]\n",
        f"# fitdoctor: ignore-file\n{EAGER}",
    ],
)  # fmt: skip
def test_a_comment_silences(check: Check, here: Path, changed: str) -> None:
    (here / "train.py").write_text(changed)
    done = check("--format", "json")
    assert (done.code, done.found, done.data["suppressed"], done.err) == (0, [], 1, "")


@pytest.mark.parametrize(
    "changed",
    [
        EAGER.replace(LINE, f"{LINE}  # fitdoctor: ignore[python-map]"),
        EAGER.replace("model.fit(x, y)", "model.fit(x, y)  # fitdoctor: ignore"),
        EAGER.replace("model = ", "model = a = ") + 'text = "# fitdoctor: ignore-file"\n',
    ],
)
def test_a_comment_elsewhere_silences_nothing(check: Check, here: Path, changed: str) -> None:
    (here / "train.py").write_text(changed)
    done = check("--format", "json")
    assert (done.code, [rule for rule, _ in done.found], done.err) == (1, ["eager-step"], "")


@pytest.mark.parametrize(
    ("comment", "warning"),
    [
        ("# fitdoctor: ignore[eager-stop]", "train.py:4: a comment names the rule 'eager-stop', which does not exist: "
         "did you mean eager-step?"),
        ("# fitdoctor: ignore[]", "empty brackets silences nothing"),
        ("# fitdoctor: noqa", "'# fitdoctor: noqa' is not understood"),
    ],
)  # fmt: skip
def test_a_comment_that_means_nothing_is_warned_about(check: Check, here: Path, comment: str, warning: str) -> None:
    (here / "train.py").write_text(EAGER.replace(LINE, f"{LINE}  {comment}"))
    done = check("--format", "json")
    assert (done.code, len(done.found)) == (1, 1)
    assert warning in done.err
    assert len(done.data["warnings"]) == 1


def test_what_a_line_silences_ends_with_the_header_of_a_block(check: Check, here: Path) -> None:
    loop = "import keras\nfor i in range(3):  # fitdoctor: ignore\n    model.compile('adam', 'mse', run_eagerly=True)\n"
    (here / "train.py").write_text(f"{loop}    model.fit(x)\n")
    assert ("eager-step", 3) in check("--format", "json").found
