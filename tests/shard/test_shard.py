"""`fitdoctor shard`, from the command line to the records."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitdoctor.cli.main import main
from fitdoctor.errors import EXIT_OK, EXIT_USAGE, UsageError
from fitdoctor.shard import parse, plan, records
from fitdoctor.shard.example import example
from fitdoctor.shard.manifest import LOCK, NAME, Manifest, only_one
from fitdoctor.shard.source import Folder, Found, Unreadable
from tests.shard.conftest import contents, fill, held

SMALL = ("--shard-size", "20KB")


def shard(*words: Any) -> int:
    return main(["shard", *map(str, words)])


# --- what comes out -----------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", records.FORMATS)
def test_every_file_is_in_one_record_and_in_order(source: Path, tmp_path: Path, format_: str) -> None:
    assert shard(source, tmp_path / "out", "--format", format_, *SMALL) == EXIT_OK
    found = held(tmp_path / "out", format_)
    assert dict(found) == contents(source)
    assert [path for path, _ in found] == sorted(contents(source))
    assert len(list((tmp_path / "out").glob("part-*"))) > 3
    assert shard(source, tmp_path / "out", "--verify") == EXIT_OK


def test_the_manifest_knows_where_each_file_is(source: Path, tmp_path: Path) -> None:
    shard(source, tmp_path / "out", *SMALL)
    manifest = Manifest(tmp_path / "out")
    for each in manifest.shards():
        data = (tmp_path / "out" / each.name).read_bytes()
        for number, entry in enumerate(manifest.entries(each.number)):
            assert entry.record == number
            assert entry.offset is not None
            length = int.from_bytes(data[entry.offset : entry.offset + 8], "little")
            record = parse(data[entry.offset + 12 : entry.offset + 12 + length])
            assert record["bytes"] == (source / entry.found.path).read_bytes()
    manifest.close()


def test_a_seed_gives_an_order_and_always_the_same(source: Path, tmp_path: Path) -> None:
    orders = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        shard(source, tmp_path / name, "--seed", seed, *SMALL)
        orders.append([path for path, _ in held(tmp_path / name)])
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == sorted(contents(source))


def test_patterns(source: Path, tmp_path: Path) -> None:
    (source / "cats" / "notes.txt").write_text("x")
    shard(source, tmp_path / "out", "--include", "cats/*", "--exclude", "*.txt")
    assert {path.split(b"/")[0] for path, _ in held(tmp_path / "out")} == {b"cats"}
    assert not any(path.endswith(b".txt") for path, _ in held(tmp_path / "out"))


def test_links_nested_folders_and_names_of_all_kinds(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "a" / "b" / "c").mkdir(parents=True)
    names = ["with space", "new\nline", "ümlaut", "-dash", "'quote\""]
    for name in names:
        (source / "a" / "b" / name).write_text(name)
    Path(os.fsdecode(os.fsencode(source / "a") + b"/\xff\xfe")).write_text("no UTF-8")
    (source / "link").symlink_to(source / "a" / "b" / "ümlaut")
    (source / "a" / "b" / "c" / "circle").symlink_to(source / "a")
    (source / "folder link").symlink_to(source / "a" / "b")
    assert shard(source, tmp_path / "out") == EXIT_OK
    found = dict(held(tmp_path / "out"))
    assert found[b"a/\xff\xfe"] == b"no UTF-8"
    assert found[b"link"] == "ümlaut".encode()
    assert {f"a/b/{name}".encode() for name in names} <= found.keys()
    assert b"folder link/new\nline" in found
    # A circle is left where it closes: through the link, once around.
    assert len(found) == 2 * len(names) + 3


def test_it_prints_code_that_is_python(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for format_ in records.FORMATS:
        shard(source, tmp_path / format_, "--format", format_)
        printed = capsys.readouterr().out
        compile(printed, "printed", "exec")
        assert str(tmp_path / format_) in printed


def test_a_dry_run_writes_nothing(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shard(source, tmp_path / "out", "--dry-run", *SMALL) == EXIT_OK
    assert "60 files" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_a_store_of_fsspec(tmp_path: Path) -> None:
    import fsspec

    system = fsspec.filesystem("memory")
    for number in range(20):
        system.pipe(f"/bucket/train/{number % 2}/{number}.bin", bytes([number + 1]) * 50)
    try:
        assert shard("memory://bucket/train", tmp_path / "out", "--shard-size", "500") == EXIT_OK
        found = dict(held(tmp_path / "out"))
        assert found[b"1/7.bin"] == bytes([8]) * 50
        assert len(found) == 20
        assert shard("memory://bucket/nothing", tmp_path / "other") == EXIT_USAGE
    finally:
        system.rm("/bucket", recursive=True)


def test_ten_thousand_tiny_files(tmp_path: Path) -> None:
    source = fill(tmp_path / "source", 10_000, largest=200)
    assert shard(source, tmp_path / "out", "--shard-size", "200KB") == EXIT_OK
    assert len({path for path, _ in held(tmp_path / "out")}) == 10_000


# --- what cannot be taken over ------------------------------------------------------------------------


def spoil(source: Path) -> None:
    (source / "cats" / "empty.bin").touch()
    (source / "cats" / "broken").symlink_to(source / "nowhere")
    os.mkfifo(source / "cats" / "pipe")


def test_bad_files_stop_it_before_anything_is_written(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(source)
    assert shard(source, tmp_path / "out") == EXIT_USAGE
    said = capsys.readouterr().err
    for words in ("3 files", "empty.bin: it is empty", "broken: it is a link to nothing", "pipe: it is neither"):
        assert words in said
    assert not list((tmp_path / "out").glob("part-*"))


def test_bad_files_are_skipped_and_listed_where_that_is_asked_for(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(source)
    assert shard(source, tmp_path / "out", "--skip-bad", *SMALL) == EXIT_OK
    said = capsys.readouterr().err
    assert said.count("left out: cats/") == 3
    assert "fitdoctor: 60 files (" in said
    assert "; 60 of them now" in said
    assert shard(source, tmp_path / "out", "--skip-bad", *SMALL) == EXIT_OK
    assert "; 0 of them now, 0 files/s, 60 before" in capsys.readouterr().err
    assert len(held(tmp_path / "out")) == 60
    manifest = Manifest(tmp_path / "out")
    assert {each.found.path: each.bad for each in manifest.entries() if each.bad} == {
        "cats/empty.bin": "it is empty",
        "cats/broken": "it is a link to nothing",
        "cats/pipe": "it is neither a file nor a folder",
    }
    manifest.close()
    assert shard(source, tmp_path / "out", "--verify") == EXIT_OK
    assert shard(source, tmp_path / "out", *SMALL) == EXIT_USAGE, "without --skip-bad it does not pass in silence"


class Fading(Folder):
    """A folder whose files vanish or change between the listing and the reading."""

    def read(self, found: Found) -> bytes:
        if found.path.endswith("7.bin"):
            os.truncate(os.path.join(self.root, found.path), 0)
        if found.path.endswith("9.bin"):
            os.unlink(os.path.join(self.root, found.path))
        return super().read(found)


def test_a_file_that_changes_or_vanishes_is_bad(source: Path) -> None:
    fading = Fading(str(source))
    why = set()
    for found in fading.files():
        try:
            assert fading.read(found) == (source / found.path).read_bytes()
        except Unreadable as error:
            why.add(str(error))
    assert why == {"it was changed after it was listed", "it vanished"}


@pytest.mark.parametrize("skip", [False, True])
def test_a_bad_shard_counts_for_nothing(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skip: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fitdoctor.shard.source.Folder", Fading)
    code = shard(source, tmp_path / "out", *SMALL, *(["--skip-bad"] if skip else []))
    said = capsys.readouterr().err
    assert code == EXIT_USAGE
    if skip:  # the source is not what was listed, and that is noticed at the end
        assert "was changed while it was converted" in said
    else:
        assert "cannot be taken over" in said
    assert not list((tmp_path / "out").glob(".part-*"))


def test_shards_of_nothing_but_bad_files_are_left_out(tmp_path: Path) -> None:
    source = fill(tmp_path / "source", 3)
    for number in range(300):
        (source / f"z{number}").touch()
    assert shard(source, tmp_path / "out", "--skip-bad", "--shard-size", "3KB") == EXIT_OK
    assert len(held(tmp_path / "out")) == 3
    assert shard(source, tmp_path / "out", "--verify") == EXIT_OK


# --- what it refuses ----------------------------------------------------------------------------------


def test_nothing_to_convert(tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bare").mkdir()
    assert shard(tmp_path / "bare", tmp_path / "out") == EXIT_USAGE
    assert shard(source, tmp_path / "out", "--include", "*.jpg") == EXIT_USAGE
    assert "60 left out" in capsys.readouterr().err
    assert shard(tmp_path / "nowhere", tmp_path / "out") == EXIT_USAGE
    assert shard(source / "cats", source / "cats" / "out") == EXIT_USAGE


def test_foreign_files_are_left_alone(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "part-00000.tfrecord").write_text("mine")
    assert shard(source, out) == EXIT_USAGE
    assert (out / "part-00000.tfrecord").read_text() == "mine"
    assert [path.name for path in out.iterdir()] == ["part-00000.tfrecord"]


def test_other_options_or_another_source_need_another_folder(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shard(source, out, *SMALL)
    before = {path: path.read_bytes() for path in out.glob("part-*")}
    assert shard(source, out, "--seed", 1, *SMALL) == EXIT_USAGE
    assert shard(source / "cats", out, *SMALL) == EXIT_USAGE
    assert {path: path.read_bytes() for path in out.glob("part-*")} == before
    assert shard(source, out, *SMALL) == EXIT_OK


@pytest.mark.parametrize("change", ["new", "gone", "other"])
def test_a_source_that_changed_since_is_noticed(
    source: Path, tmp_path: Path, change: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shard(source, tmp_path / "out")
    some = next(source.rglob("*.bin"))
    if change == "new":
        (source / "cats" / "new.bin").write_text("x")
    elif change == "gone":
        some.unlink()
    else:
        some.write_bytes(some.read_bytes())
        os.utime(some, ns=(1, 1))
    assert shard(source, tmp_path / "out") == EXIT_USAGE
    assert "was changed since" in capsys.readouterr().err


def test_two_at_a_time_are_refused(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").mkdir()
    with only_one(tmp_path / "out"):
        codes: list[int] = []
        other = threading.Thread(target=lambda: codes.append(shard(source, tmp_path / "out")))
        other.start()
        other.join()
    assert codes == [EXIT_USAGE]
    assert "another fitdoctor" in capsys.readouterr().err
    assert shard(source, tmp_path / "out") == EXIT_OK


def test_a_full_disk_is_said_and_the_rest_goes_on_later(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = os.fsync
    calls: list[int] = []

    def full(handle: int) -> None:
        calls.append(handle)
        if len(calls) > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    assert shard(source, tmp_path / "out", *SMALL) == EXIT_USAGE
    assert "No space left on device" in capsys.readouterr().err
    monkeypatch.setattr(os, "fsync", real)
    assert shard(source, tmp_path / "out", *SMALL) == EXIT_OK
    assert dict(held(tmp_path / "out")) == contents(source)


def test_a_package_that_is_missing_is_named(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    with pytest.raises(UsageError, match="google-crc32c") as caught:
        records.writer(tmp_path / "x", "tfrecord")
    assert "fitdoctor[shard]" in caught.value.do


@pytest.mark.parametrize("words", [["--shard-size", "many"], ["--jobs", "0"], ["--option", "anon"], ["--format", "x"]])
def test_options_that_cannot_be_used(source: Path, tmp_path: Path, words: list[str]) -> None:
    assert shard(source, tmp_path / "out", *words) == EXIT_USAGE
    assert not (tmp_path / "out").exists()


# --- damage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", records.FORMATS)
@pytest.mark.parametrize("damage", ["flipped", "short", "missing"])
def test_damage_is_found(source: Path, tmp_path: Path, format_: str, damage: str) -> None:
    out = tmp_path / "out"
    shard(source, out, "--format", format_, *SMALL)
    victim = sorted(out.glob("part-*"))[1]
    whole = victim.read_bytes()
    if damage == "flipped":
        victim.write_bytes(whole[:500] + bytes([whole[500] ^ 1]) + whole[501:])
    elif damage == "short":
        victim.write_bytes(whole[:-5])
    else:
        victim.unlink()
    assert shard(source, out, "--verify") == EXIT_USAGE
    if damage == "missing":
        assert shard(source, out, "--format", format_, *SMALL) == EXIT_OK
        assert shard(source, out, "--verify") == EXIT_OK


def test_verify_wants_a_finished_conversion(source: Path, tmp_path: Path) -> None:
    assert shard(source, tmp_path, "--verify") == EXIT_USAGE
    (tmp_path / "out").mkdir()
    Manifest(tmp_path / "out").close()
    assert shard(source, tmp_path / "out", "--verify") == EXIT_USAGE
    (tmp_path / "out" / NAME).write_bytes(b"no database")
    assert shard(source, tmp_path / "out", "--verify") == EXIT_USAGE


def test_records_cut_anywhere_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x"
    writer = records.writer(path, "tfrecord")
    writer.write(b"hello")
    writer.close()
    whole = path.read_bytes()
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(Exception, match="damaged"):
            list(records.read(path, "tfrecord"))


# --- parts --------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.binary(max_size=70_000))
def test_a_record_gives_back_what_went_in(path: str, content: bytes) -> None:
    found = parse(example(path, content))
    assert (found["path"].decode(), found["bytes"]) == (path, content)


@given(st.lists(st.integers(0, 50)), st.integers(1, 100))
def test_shards_are_filled_in_order_and_not_beyond_their_size(sizes: list[int], most: int) -> None:
    numbers = plan.shards(sizes, most)
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(len(set(numbers))))
    for number in set(numbers):
        inside = [size for size, of in zip(sizes, numbers, strict=True) if of == number]
        assert sum(inside) <= most or len([size for size in inside if size]) == 1


@pytest.mark.parametrize(("text", "size"), [("1", 1), ("128MiB", 128 << 20), ("1.5 GB", 1_500_000_000), ("2kb", 2000)])
def test_sizes(text: str, size: int) -> None:
    assert plan.size_in_bytes(text) == size


def test_nothing_but_the_bar_knows_a_terminal(source: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fitdoctor", "shard", str(source), str(tmp_path / "out")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    assert "\x1b" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (tmp_path / "out" / LOCK).exists()
