"""Pages as a person follows them, command by command: docs/about-these-pages.md says how."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_KEPT = ("HOME", "LANG", "JAVA_HOME", "TMPDIR", "SPARK_SUBMIT_OPTS")
_WRITTEN = ("toml", "python", "sql", "sh")
_MARK = "@@ snippet"

_fence = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_file = re.compile(r"(?:#|--) (\w[\w./-]*\.\w+)$")
_exit = re.compile(r"#.*\bexit (\d+)")


class Step(NamedTuple):
    """One command of a page, how it must end, and the lines that must be among what it prints."""

    command: str
    code: int = 0
    lines: tuple[str, ...] = ()


def steps(page: str) -> Iterator[Step]:
    """What a person who follows the page types, in order."""
    for language, text in _fence.findall(page):
        named = _file.fullmatch(text.partition("\n")[0])
        if language == "console":
            yield from _session(text)
        elif language == "bash":
            yield from (Step(command, _code(command)) for command in _commands(text))
        elif named and language in _WRITTEN:
            folder = os.path.dirname(named[1]) or "."
            yield Step(f"mkdir -p {folder} && cat > {named[1]} <<'END_OF_FILE'\n{text}END_OF_FILE")


def play(wanted: Sequence[Step], folder: Path, **environ: str) -> None:
    """Type every step in one shell in this folder, with the odf and RunJob of this environment, and compare."""
    script = folder.parent / f"{folder.name}.sh"  # a file, so that no command can eat the rest of it as its input
    script.write_text("".join(f"{step.command}\nprintf '\\n{_MARK} %s\\n' $?\n" for step in wanted))
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
    answers = re.split(rf"\n{_MARK} (\d+)\n", done.stdout)
    assert len(answers) == 2 * len(wanted) + 1, done.stdout
    for step, said, code in zip(wanted, answers[::2], answers[1::2], strict=False):
        assert int(code) == step.code, f"$ {step.command}\n{said}(exit {code})"
        assert "Traceback" not in said, said
        for line in step.lines:
            assert _is_said(line, said), f"$ {step.command}\n{said}does not say: {line}"


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


def _is_said(line: str, said: str) -> bool:
    pattern = re.escape(" ".join(line.split())).replace("…", ".*")
    return any(re.fullmatch(pattern, " ".join(each.split())) for each in said.splitlines())
