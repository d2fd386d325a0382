"""Parts of a log: positions stay, letters stay whole, and a huge log costs little memory."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from opendataflow.errors import UnknownRun
from opendataflow.run.process.log_reader import last_lines, lines_before, part, search
from opendataflow.run.process.logs import LogFile


def written(folder: Path, text: str) -> Path:
    path = folder / "a.log"
    path.write_text(text, encoding="utf-8")
    return path


def whole(path: Path, most: int) -> str:
    """The log, read part by part."""
    told, at = "", 0
    while True:
        piece = part(path, at, most)
        if piece.start == piece.end:
            return told
        assert piece.start == at
        told, at = told + piece.text, piece.end


@pytest.mark.parametrize("most", [7, 20, 1000])
def test_parts_follow_each_other_and_cut_no_letter(tmp_path: Path, most: int) -> None:
    text = "".join(f"{number} grün 漢字 🙂\n" for number in range(40)) + "the last line has no end"
    path = written(tmp_path, text)
    assert whole(path, most) == text
    assert part(path, 10**9).text == ""
    assert part(path, -5).text == text


def test_a_part_knows_its_first_line_and_where_the_log_ends(tmp_path: Path) -> None:
    path = written(tmp_path, "one\ntwo\nthree\n")
    second = part(path, 4, 5)
    assert (second.text, second.start, second.end, second.size, second.line) == ("two\n", 4, 8, 14, 2)


def test_the_last_lines_are_whole(tmp_path: Path) -> None:
    path = written(tmp_path, "".join(f"line {number}\n" for number in range(1000)))
    last = last_lines(path, 3)
    assert (last.text, last.line, last.end == last.size) == ("line 997\nline 998\nline 999\n", 998, True)
    assert last_lines(path, 1000).text.startswith("line 0\n")
    assert last_lines(path, 1000, most=12).text == "line 999\n"
    assert last_lines(written(tmp_path, ""), 5).text == ""
    assert last_lines(written(tmp_path, "no end"), 5).text == "no end"


def test_positions_stay_when_a_log_is_shortened(tmp_path: Path) -> None:
    with LogFile(tmp_path, jobid="job", dataid="1", epoch=1, runid="1", limit=64 * 1024) as log:
        for number in range(3000):
            log.write(b"line %08d\n" % number)
        before = last_lines(log.path, 1)
        for number in range(3000, 6000):
            log.write(b"line %08d\n" % number)
        assert before.text == "line 00002999\n"
        assert part(log.path, before.start, 14).text != before.text  # it is left out by now
        last = last_lines(log.path, 1)
        assert last.end == len(b"line 00000000\n") * 6000 + (before.end - 14 * 3000)
        for number in range(6000, 7000):
            log.write(b"line %08d\n" % number)
        assert part(log.path, last.start, 14).text == last.text
        told = whole(log.path, 1000)
    assert told == log.path.read_text()
    assert told.count("bytes left out …") == 1
    (found,) = search(log.path, "line 00006999", 9).matches
    assert part(log.path, found.position, 14).text == "line 00006999\n"


def test_the_lines_before_a_position_are_whole(tmp_path: Path) -> None:
    path = written(tmp_path, "one\ntwo\nthree\nfour\n")
    assert lines_before(path, 14, 1000).text == "one\ntwo\nthree\n"
    assert lines_before(path, 14, 8).text == "three\n"
    assert lines_before(path, 0, 8).text == ""
    assert lines_before(path, 10**9, 7).text == "four\n"


def test_a_search_tells_lines_and_positions_and_is_bounded(tmp_path: Path) -> None:
    path = written(tmp_path, "a\nERROR one\nb\n" + "x" * 1000 + "error two" + "y" * 1000 + "\nerror three\n")
    found = search(path, "Error", 2)
    assert not found.is_all
    assert [(each.line, each.position) for each in found.matches] == [(2, 2), (4, 14)]
    assert found.matches[1].text == "…" + "x" * 200 + "error two" + "y" * 196 + "…"
    assert search(path, "nothing", 9) == ((), True)
    assert search(path, "error", 9, most=10) == (found.matches[:1], False)


def test_a_huge_log_costs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.log"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 100 * 2**20)
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe end\n")
    tracemalloc.start()
    try:
        assert last_lines(path, 1).text == "the end\n"
        assert len(part(path, 50 * 2**20).text) <= 65536
        assert search(path, "the end", 9) == ((), False)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()


def test_a_log_that_is_gone_or_became_a_link_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(UnknownRun):
        part(tmp_path / "none.log", 0)
    (tmp_path / "link.log").symlink_to(written(tmp_path, "secret"))
    with pytest.raises(OSError, match="symbolic links"):
        part(tmp_path / "link.log", 0)
