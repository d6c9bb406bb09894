"""Every error fitdoctor raises on purpose.

    FitdoctorError                 says what was expected, what was found, what to do
    ├── UsageError                 the command line or an argument cannot be used        exit 2
    ├── CaptureError               a capture file cannot be read or written              exit 2
    │   ├── NotACapture            the file is something else, or truncated
    │   ├── NewerCapture           written by a later fitdoctor
    │   └── CannotWrite            the place for the capture is not writable
    ├── ShardError                 a conversion cannot go on; what is finished stays     exit 2
    │   └── BadFiles               files of the source cannot be taken over
    ├── CannotFix                  an edit cannot be written or undone; no file was lost   exit 2
    ├── CannotRun                  an experiment is impossible on this job               (never leaves the lab)
    └── MissingEvidence            a fact could not be established; carries the `Gap`    (never leaves diagnose)

Exit codes of the commands:

    0      done (a finding is not an error)
    2      the command, its arguments or a file given to it cannot be used, or its answer not be written
    3      fitdoctor itself failed: a bug, please report it
    1      `prove`, `cure`, `tune`, `fix --prove`: not proved faster (no effect, refuted, or inconclusive);
           `compare`: slower than --fail-over allows; `check`: something is suspected
    4      `run`, capped, and whatever runs a script first: it ended by itself and no training was seen
    130    it was interrupted with Ctrl-C
    141    whoever read the answer has left
    other  `run`, `input`, `fix`: the script's own exit code, 128 + n if signal n ended it
"""

from __future__ import annotations

from fitdoctor.model import Gap

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_BUG = 3
EXIT_NO_TRAINING = 4


class FitdoctorError(Exception):
    """Base of everything fitdoctor raises on purpose."""

    exit_code = EXIT_USAGE

    def __init__(self, problem: str, *, do: str = "") -> None:
        super().__init__(f"{problem}\n  → {do}" if do else problem)
        self.problem = problem
        self.do = do


class UsageError(FitdoctorError):
    """The command line or an argument cannot be used."""


class CaptureError(FitdoctorError):
    """A capture file cannot be read or written."""


class NotACapture(CaptureError):  # noqa: N818 - the name says what was found
    """The file is something else, or truncated beyond use."""


class NewerCapture(CaptureError):  # noqa: N818
    """Written by a later version of fitdoctor."""


class CannotWrite(CaptureError):  # noqa: N818
    """The place for the capture is not writable."""


class ShardError(FitdoctorError):
    """A conversion to shards cannot go on, or its result is not what it should be."""


class BadFiles(ShardError):  # noqa: N818
    """Files of the source that cannot be taken over."""


class CannotFix(FitdoctorError):  # noqa: N818
    """An edit cannot be written, or not be undone; every file is as it was, or in the journal."""


class CannotRun(FitdoctorError):  # noqa: N818
    """An experiment is impossible on this job; says why, and what would make it possible."""


class MissingEvidence(FitdoctorError):  # noqa: N818
    """A fact could not be established."""

    def __init__(self, gap: Gap) -> None:
        super().__init__(f"{gap.what}: {gap.reason}", do=gap.remedy)
        self.gap = gap
