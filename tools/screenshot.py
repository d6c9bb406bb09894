"""Run `fitdoctor run` on an example and draw the report as it stands on a terminal: docs/assets/run.svg.

python tools/screenshot.py [-o FILE] [SCRIPT [ARGS...]]

The command really runs; what the script itself prints is left out of the picture.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from fitdoctor import pipeline
from fitdoctor.report import terminal

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 92


def main() -> int:
    """Run and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "assets" / "run.svg")
    parser.add_argument("--lines", type=int, default=40, help="how much of the report is drawn (default: 40 lines)")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="default: examples/slow_images.py --epochs 4")
    args = parser.parse_args()
    words = args.command or ["examples/slow_images.py", "--epochs", "4"]
    with tempfile.TemporaryDirectory() as folder:
        capture = Path(folder) / "run.fitdoctor"
        code = subprocess.run(
            [sys.executable, "-m", "fitdoctor", "run", "--capture", capture, *words], cwd=ROOT, check=False
        ).returncode
        if code != 0:
            return code
        args.output.write_text(drawn(["fitdoctor", "run", *words], capture, args.lines), "utf-8")
    print(f"wrote {args.output}", file=sys.stderr)
    return 0


def drawn(command: Sequence[str], capture: Path, lines: int) -> str:
    """Return the picture of a command and the report of its capture."""
    report, source_of = pipeline.open_capture(capture)
    shown = io.StringIO()
    terminal.render(
        report, Console(file=shown, width=COLUMNS, force_terminal=True, color_system="truecolor", highlight=False),
        source_of,
    )  # fmt: skip
    text = shown.getvalue().splitlines()
    picture = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    picture.print(Text.assemble(("$ ", "bold green"), " ".join(command)))
    for line in text[:lines]:
        picture.print(Text.from_ansi(line), no_wrap=True, crop=True)
    if len(text) > lines:
        picture.print(Text("  …", "dim"))
    # Installed fonts only: nothing is fetched.
    return local_fonts(picture.export_svg(title="fitdoctor", theme=MONOKAI, unique_id="fitdoctor"))


def local_fonts(svg: str) -> str:
    """Drop the fonts that rich would have a browser fetch."""
    import re

    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main())
