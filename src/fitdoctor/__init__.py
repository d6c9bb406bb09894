"""fitdoctor: why is my Keras training slow?

The public names, nothing else.  They are loaded on first use, so that importing fitdoctor imports no framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fitdoctor._version import __version__

if TYPE_CHECKING:
    from fitdoctor.api import check, diagnose, fix, optimize, prove, run, steps, watch
    from fitdoctor.model import Report

    Callback: Any

__all__ = [
    "Callback",
    "Report",
    "__version__",
    "check",
    "diagnose",
    "fix",
    "optimize",
    "prove",
    "run",
    "steps",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name == "Report":
        from fitdoctor.model import Report

        return Report
    if name in __all__:
        import importlib

        return getattr(importlib.import_module("fitdoctor.api"), name)
    raise AttributeError(f"module 'fitdoctor' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Give a notebook the cell magic `%%fitdoctor`: IPython calls this for `%load_ext fitdoctor`."""
    from fitdoctor import notebook

    notebook.load(shell)


def __dir__() -> list[str]:
    return sorted(__all__)
