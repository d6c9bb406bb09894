"""`fitdoctor serve`: many recorded runs on a page of this machine, and a run under way as it goes on."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from fitdoctor.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction


def add_parser(subparsers: _SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command line."""
    parser = subparsers.add_parser(
        "serve",
        help="browse recorded runs, and a run under way",
        description="Show the runs recorded in a folder on a page that only this machine can open. Nothing is written.",
    )
    parser.add_argument("folder", metavar="DIR", nargs="?", help="a folder of captures (default: fitdoctor's own)")
    parser.add_argument("--port", metavar="N", type=int, default=0, help="listen there (default: any free port)")
    parser.add_argument("--no-open", action="store_true", help="do not open a browser")


def run(args: argparse.Namespace) -> int:
    """Carry it out, until Ctrl-C."""
    from fitdoctor.capture import places
    from fitdoctor.cli import output
    from fitdoctor.serve.running import until_stopped
    from fitdoctor.serve.server import Server

    folder = Path(args.folder) if args.folder else places.runs_folder()
    if not os.path.isdir(folder):
        found = "a file" if os.path.exists(folder) else "nothing"
        raise UsageError(
            f"expected a folder of captures at {folder}, found {found}",
            do="name the folder, or make a capture first with `fitdoctor run your_script.py`",
        )
    if not os.access(folder, os.R_OK | os.X_OK):
        raise UsageError(f"the folder {folder} may not be read", do="check its permissions, or name another one")
    with Server(folder, args.port) as server:
        print(server.url, flush=True)
        output.talk(f"showing the runs in {folder}; stop with Ctrl-C")
        until_stopped(server, opened=not args.no_open)
    output.talk("stopped")
    return EXIT_OK
