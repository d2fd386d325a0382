"""Every page is played in an empty folder, with the real odf and RunJob: docs/about-these-pages.md says how."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
NEED_SPARK = ("README.md", "tutorial/your-spark-pipeline.md", "tutorial/your-migration.md")
BY_OTHERS = ("tutorial/five-minutes.md",)  # the demo has a test of its own

_KEPT = ("HOME", "LANG", "JAVA_HOME", "TMPDIR")
_is_played = re.compile(r"^```(?:console|bash)$", re.MULTILINE).search
_fence = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_file = re.compile(r"(?:#|--) ([\w./-]+\.\w+)$")
_exit = re.compile(r"#.*\bexit (\d+)")
_mark = "@@ snippet"


class Step(NamedTuple):
    """One command of a page, how it must end, and the lines that must be among what it prints."""

    command: str
    code: int = 0
    lines: tuple[str, ...] = ()


def test_every_part_of_a_page_is_understood() -> None:
    page = (
        "```toml\n# dataflow.toml\n[project]\n```\n"
        "```console\n$ odf status\na  b\n$ odf run x  # exit 1\n```\n"
        "```bash\ncat > x <<'END'\none\nEND\necho a \\\n  b\n```\n"
        "```sh\napt-get install x\n```\n"
    )
    assert list(steps(page)) == [
        Step("mkdir -p . && cat > dataflow.toml <<'END_OF_FILE'\n# dataflow.toml\n[project]\nEND_OF_FILE"),
        Step("odf status", 0, ("a  b",)),
        Step("odf run x  # exit 1", 1),
        Step("cat > x <<'END'\none\nEND"),
        Step("echo a \\\n  b"),
    ]


def _pages() -> Iterator[object]:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        name = path.relative_to(ROOT).as_posix()
        if name.endswith(BY_OTHERS) or not _is_played(path.read_text(encoding="utf-8")):
            continue
        marks: list[pytest.MarkDecorator] = []
        if name.endswith(NEED_SPARK):
            marks = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("spark")]
            if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
                marks.append(pytest.mark.skip(reason="needs Java"))
        yield pytest.param(path, id=name, marks=marks)


def steps(page: str) -> Iterator[Step]:
    """What a person who follows the page types, in order."""
    for language, text in _fence.findall(page):
        first = text.partition("\n")[0]
        named = _file.fullmatch(first)
        if language == "console":
            yield from _session(text)
        elif language == "bash":
            yield from (Step(command, _code(command)) for command in _commands(text))
        elif named:
            folder = os.path.dirname(named[1]) or "."
            yield Step(f"mkdir -p {folder} && cat > {named[1]} <<'END_OF_FILE'\n{text}END_OF_FILE")


def _session(text: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        command = [lines.pop(0)]
        while lines and lines[0].startswith("> "):
            command.append(lines.pop(0)[2:])
        whole = "\n".join(command)
        yield Step(whole, _code(whole), tuple(line for line in lines if line.strip()))


def _commands(text: str) -> Iterator[str]:
    """Bash itself says where a command ends: here-documents, quotes and continued lines go on."""
    whole = ""
    for line in text.splitlines():
        whole += f"\n{line}" if whole else line
        checked = subprocess.run(["bash", "-n", "-c", whole], capture_output=True, text=True)
        if whole.strip() and not whole.endswith("\\") and not checked.returncode and not checked.stderr:
            yield whole
            whole = ""
    assert not whole.strip(), f"this is no command: {whole}"


def _code(command: str) -> int:
    found = _exit.search(command)
    return int(found[1]) if found else 0


@pytest.mark.parametrize("path", list(_pages()))
def test_what_the_page_says_happens(path: Path, tmp_path: Path) -> None:
    play(list(steps(path.read_text(encoding="utf-8"))), tmp_path)


def play(wanted: list[Step], folder: Path, **environ: str) -> None:
    """Type every command in this folder, and compare what it prints and how it ends."""
    script = folder.parent / f"{folder.name}.sh"  # a file, so that no command can eat the rest of it as its input
    script.write_text("".join(f"{step.command}\nprintf '\\n{_mark} %s\\n' $?\n" for step in wanted))
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", str(script)],
        cwd=folder,
        env={**kept, "PATH": path, "COLUMNS": "120", "PYTHONIOENCODING": "utf-8", **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    answers = re.split(rf"\n{_mark} (\d+)\n", done.stdout)
    assert len(answers) == 2 * len(wanted) + 1, done.stdout
    for step, said, code in zip(wanted, answers[::2], answers[1::2], strict=False):
        assert int(code) == step.code, f"$ {step.command}\n{said}(exit {code})"
        assert "Traceback" not in said, said
        for line in step.lines:
            assert _is_said(line, said), f"$ {step.command}\n{said}does not say: {line}"


def _is_said(line: str, said: str) -> bool:
    pattern = re.escape(" ".join(line.split())).replace("…", ".*")
    return any(re.fullmatch(pattern, " ".join(each.split())) for each in said.splitlines())
