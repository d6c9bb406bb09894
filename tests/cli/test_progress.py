from __future__ import annotations

import io

from fitdoctor.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_new_words_at_once_new_numbers_now_and_then() -> None:
    now = [0.0]
    stream = io.StringIO()
    progress = Progress(stream, clock=lambda: now[0])
    for second in range(40):
        now[0] = float(second)
        progress(f"{second} of 100 steps, {second / 7:.2f} ms each")
    progress("stopping")
    lines = stream.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["0", "15", "30", "stopping"]
    assert "\x1b" not in stream.getvalue()


def test_on_a_terminal_it_clears_the_line_of_the_scripts_own_bar() -> None:
    stream = Terminal()
    Progress(stream)("warming up \x1b[2J")
    assert stream.getvalue() == "\r\x1b[K\x1b[2mfitdoctor: warming up \\x1b[2J\x1b[0m\n"


def test_a_closed_stream_never_stops_the_run() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    stream.close()
    progress("one")
    progress("two")


def test_quiet() -> None:
    stream = io.StringIO()
    Progress(stream, quiet=True)("one")
    assert stream.getvalue() == ""
