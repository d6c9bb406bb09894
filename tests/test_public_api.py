"""The public names are explicit, documented and cheap to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fitdoctor

PUBLIC = {"Callback", "Report", "__version__", "check", "diagnose", "fix", "optimize", "prove", "run", "steps", "watch"}


def test_the_public_names_are_these() -> None:
    assert set(fitdoctor.__all__) == PUBLIC
    assert len(fitdoctor.__all__) == len(PUBLIC)


@pytest.mark.framework
def test_every_public_name_is_there_and_documented() -> None:
    for name in fitdoctor.__all__:
        value = getattr(fitdoctor, name)
        assert isinstance(value, str) or value.__doc__, name
    assert set(dir(fitdoctor)) >= PUBLIC


def test_importing_it_imports_no_framework() -> None:
    program = (
        "import sys, fitdoctor;"
        "print([n for n in ('tensorflow', 'keras', 'jax', 'torch', 'numpy', 'rich') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_no_public_name_is_hidden_by_a_module_of_the_same_name() -> None:
    program = (
        "import fitdoctor, importlib, pkgutil, types\n"
        "for found in pkgutil.iter_modules(fitdoctor.__path__):\n"
        "    if found.name != '__main__': importlib.import_module(f'fitdoctor.{found.name}')\n"
        "names = [n for n in fitdoctor.__all__ if n != 'Callback']\n"
        "print([n for n in names if isinstance(getattr(fitdoctor, n), types.ModuleType)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
