"""A command runs unchanged, is heard and timed, and leaves nothing behind, however it ends."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from opendataflow.errors import BadConfig, LeaseLost
from opendataflow.run.process import launch as module
from opendataflow.run.process import process_tree, reaper
from opendataflow.run.process.command import Command
from opendataflow.run.process.launch import Terms, launch
from opendataflow.run.process.logs import LogFile
from opendataflow.run.process.process_end import ProcessEnd
from opendataflow.run.process.streams import Stream

SECRET = "hunter2-S3cret"
PATH = os.environ["PATH"]
OURS = {**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[3]), "PYTHONDONTWRITEBYTECODE": ""}

# Forks twice, leaves session and group, and says its number in a file; the first argument is that file.
DAEMON = """\
import os, signal, sys, time
if os.fork():
    sys.exit(0)
os.setsid()
if os.fork():
    os._exit(0)
if "deaf" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "quiet" in sys.argv:
    for number in (0, 1, 2): os.close(number)
    time.sleep(0.05)
with open(sys.argv[1] + "~", "w") as file: file.write(str(os.getpid()))
os.rename(sys.argv[1] + "~", sys.argv[1])
time.sleep(300)
"""


class Runner:
    def __init__(self, folder: Path) -> None:
        self.folder, self.count, self.run = folder, 0, f"r-{uuid.uuid4()}"
        self.log = self.new_log()

    def new_log(self, **options) -> LogFile:
        self.count += 1
        self.log = LogFile(
            self.folder / "logs", jobid="job", dataid="d", epoch=1, runid=f"r{self.count}", secrets=[SECRET], **options
        )
        return self.log

    def __call__(
        self,
        *argv: str,
        env: dict[str, str] | None = None,
        log: LogFile | None = None,
        stdin: int | None = None,
        **terms,
    ) -> ProcessEnd:
        env = {"PATH": PATH, "ODF_RUN": self.run} | (env or {})
        with log or self.new_log() as log:
            return launch(Command(argv, env, self.folder, stdin), log, Terms(**{"echo": False, **terms}))

    def sh(self, script: str, **options) -> ProcessEnd:
        return self("bash", "-c", script, **options)

    def py(self, code: str, *argv: str, **options) -> ProcessEnd:
        return self(sys.executable, "-c", textwrap.dedent(code), *argv, **options)

    def daemon(self, how: str, then: str, **options) -> ProcessEnd:
        """A command that starts a daemon and is cancelled as soon as that is up."""
        (self.folder / "daemon.py").write_text(DAEMON)
        cancel, pid = threading.Event(), self.folder / "pid"
        command = f"{sys.executable} daemon.py pid {how}; {then}"

        def tick() -> None:
            if pid.exists():
                cancel.set()

        return self.sh(command, cancel=cancel, tick=tick, every=0.02, **options)

    def text(self) -> str:
        return self.log.path.read_text(errors="replace")

    def output(self) -> str:
        return re.sub(r"^# .*\n", "", self.text(), flags=re.M)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runner]:
    monkeypatch.setattr(module, "LINGER", 0.3)
    runner = Runner(tmp_path)
    yield runner
    strays = marked(runner.run)
    for pid in strays:
        os.kill(pid, signal.SIGKILL)
    assert not strays


@pytest.fixture(params=["alone", "among other children"])
def company(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whether this process has other children, which are not the command's."""
    other = None if request.param == "alone" else subprocess.Popen(["sleep", "100"], start_new_session=True)
    yield
    if other:
        assert other.poll() is None  # a stranger is never hit
        other.kill()
        other.wait()


def marked(run: str) -> list[int]:
    wanted = f"ODF_RUN={run}".encode()
    return [
        pid
        for pid in map(int, filter(str.isdecimal, os.listdir("/proc")))
        if wanted in process_tree.environment_of(pid)
    ]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until(condition: Callable[[], object], longest: float = 240.0) -> None:
    deadline = time.monotonic() + longest
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


_others: set[int] = set()


@pytest.fixture(autouse=True)
def forget_zombies_of_other_tests() -> None:
    _others.clear()
    _others.update(zombies())


def zombies() -> list[int]:
    me, every = os.getpid(), process_tree.processes().values()
    return [each.pid for each in every if each.parent == me and each.state == "Z" and each.pid not in _others]


@pytest.mark.parametrize("code", [0, 1, 126, 127, 255])
@pytest.mark.usefixtures("company")
def test_the_exit_code_is_the_commands(run: Runner, code: int) -> None:
    ended = run.sh(f"exit {code}")
    assert (ended.exit_code, ended.signal, ended.timed_out, ended.cancelled) == (code, None, False, False)
    assert ended.ok == (code == 0)
    assert f"exit code {code} after" in run.text()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT, signal.SIGRTMIN + 3])
@pytest.mark.usefixtures("company")
def test_death_by_a_signal_is_told_from_an_exit(run: Runner, number: int) -> None:
    # Python would handle SIGINT; a shell ends by it, if it was not started with it ignored.
    ended = run.sh(f"kill -{int(number)} $$; sleep 5")
    assert (ended.exit_code, ended.signal, ended.ok) == (None, number, False)


def test_a_command_runs_in_a_process_that_has_read_csv_with_arrow(run: Runner) -> None:
    from pyarrow import csv  # its fork handler closes a pipe in every child

    csv.read_csv(io.BytesIO(b"a\n1\n"))
    assert run("true").exit_code == 0


def test_output_goes_to_the_log_and_to_our_own_streams(run: Runner, capfd: pytest.CaptureFixture[str]) -> None:
    log = run.new_log()
    logged = f"until grep -qx {{}} {log.path}; do sleep 0.01; done"  # two pipes have no order between them
    ended = run.sh(
        f"echo out; {logged.format('out')}; echo err >&2; {logged.format('err')}; printf end", log=log, echo=True
    )
    assert capfd.readouterr() == ("out\nend", "err\n")
    assert run.output() == "out\nerr\nend\n"
    assert ended.tail == "out\nerr\nend"


def test_output_reaches_whatever_stands_in_for_our_streams(run: Runner) -> None:
    text, raw = io.StringIO(), io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(raw):
        assert run.sh("printf grün; printf '\\377' >&2", echo=True).ok
    assert (text.getvalue(), raw.buffer.getvalue()) == ("grün", b"\xff")
    text.close()
    with contextlib.redirect_stdout(text):
        assert run.sh("echo still fine", echo=True).ok
    with contextlib.redirect_stdout(None):
        assert run.sh("echo still fine", echo=True).ok


def test_output_is_shown_while_the_command_runs(run: Runner, tmp_path: Path) -> None:
    seen: list[str] = []

    def look() -> None:
        if shown := run.output():
            seen.append(shown)
            (tmp_path / "seen").touch()

    run.sh("printf 'no newline yet'; until test -e seen; do sleep 0.01; done", tick=look, every=0.02)
    assert seen[0] == "no newline yet"


def test_output_may_be_any_bytes(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(blob := bytes(range(256)) * 300)
    assert run.sh("cat blob").ok
    assert blob in run.log.path.read_bytes()


def test_secrets_are_redacted_also_when_split_over_writes(run: Runner, capfd: pytest.CaptureFixture[str]) -> None:
    ended = run.py(
        """
        import os, sys, time
        for byte in b"pw=" + sys.argv[1].encode() + b"!":
            os.write(1, bytes([byte])); time.sleep(0.002)
        print("and", sys.argv[1], file=sys.stderr)
        """,
        SECRET,
        echo=True,
    )
    assert SECRET not in run.text() + ended.tail + "".join(capfd.readouterr())
    assert "pw=[redacted]!" in run.text()
    assert re.search(r"^# argv .*\[redacted\]", run.text(), re.M)


def test_the_tail_is_a_few_plain_lines(run: Runner) -> None:
    ended = run.sh(r"seq 100; printf 'busy\rdone\n\033[31mred\033[0m\007\n\n' >&2; exit 1")
    lines = ended.tail.split("\n")
    assert 3 < len(lines) <= 8
    assert lines[-1] == "red"
    assert lines[-3:-1] == ["busy", "done"]


def test_fifty_megabytes_pass_quickly_in_little_memory(run: Runner) -> None:
    before = time.process_time()
    ended = run.py(
        """
        import sys
        for number in range(500): sys.stdout.write(f"{number:09d}\\n" * 10_000)
        """
    )
    assert ended.ok
    assert time.process_time() - before < 10  # of our own: a busy machine is slow, not wrong
    assert ended.tail.endswith("000000499")
    assert run.log.path.stat().st_size <= 16 * 2**20 + 200


def test_input_is_empty_unless_given(run: Runner, tmp_path: Path) -> None:
    assert run.sh('test -z "$(cat)"').ok
    (tmp_path / "in").write_text("given")
    with open(tmp_path / "in") as file:
        assert run.sh('test "$(cat)" = given', stdin=file.fileno()).ok


# -- what can be run ---------------------------------------------------------------------------------------------------


def script(folder: Path, name: str, text: str, mode: int = 0o644) -> str:
    (folder / name).write_text(text)
    (folder / name).chmod(mode)
    return name


@pytest.mark.parametrize(
    ("name", "text", "mode"),
    [
        ("plain.sh", 'declare -a bash_only; echo "ran $1"', 0o644),
        ("plain.py", "import sys; print('ran', sys.argv[1])", 0o644),
        ("marked.sh", '#!/bin/sh\necho "ran $1"', 0o755),
        ("marked.pl", '#!/bin/sh\necho "ran $1"', 0o644),
        ("marked.sh", f"#!/usr/bin/env {sys.executable}\nimport sys; print('ran', sys.argv[1])", 0o644),
        ("unmarked", 'declare -a bash_only; echo "ran $1"', 0o755),
        ("unmarked.py", "import sys; print('ran', sys.argv[1])", 0o755),
        ("-dash.sh", 'echo "ran $1"', 0o644),
        ("odd name; $(touch hacked).sh", 'echo "ran $1"', 0o644),
    ],
)
@pytest.mark.parametrize("path", ["{0}", "./{0}", "{1}/{0}"])
def test_scripts_run_as_a_shell_would_run_them(
    run: Runner, tmp_path: Path, name: str, text: str, mode: int, path: str
) -> None:
    script(tmp_path, name, text, mode)
    assert run(path.format(name, tmp_path), "$(id); x").ok
    assert "ran $(id); x\n" in run.output()
    assert not (tmp_path / "hacked").exists()


def test_a_stray_file_does_not_shadow_a_command(run: Runner, tmp_path: Path) -> None:
    script(tmp_path, "true", "#!/bin/sh\nexit 9", 0o755)
    assert run("true").exit_code == 0
    assert run("./true").exit_code == 9


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ([], ""),
        ([""], ""),
        (["no-such-command"], "no-such-command"),
        (["./no/such.sh"], "no/such.sh"),
        (["./"], "./"),
        (["./data.txt"], "./data.txt"),
        (["./bad.sh"], "/no/interpreter"),
        (["true", "a\0b"], ""),
        (["true", "\ud800"], ""),
    ],
)
def test_what_cannot_be_run_is_refused_and_logged(run: Runner, tmp_path: Path, argv: list[str], named: str) -> None:
    script(tmp_path, "data.txt", "data")
    script(tmp_path, "bad.sh", "#!/no/interpreter\n", 0o755)
    with pytest.raises(BadConfig) as caught:
        run(*argv)
    assert named in caught.value.message
    assert f": BadConfig: {caught.value.message}\n" in run.text().partition("# ended ")[2]


def test_a_missing_working_directory_is_refused(run: Runner, tmp_path: Path) -> None:
    with pytest.raises(BadConfig), run.new_log() as log:
        launch(Command(["true"], {}, tmp_path / "gone"), log, Terms())


def test_the_environment_is_the_one_given_without_any_way_to_the_key(run: Runner, monkeypatch) -> None:
    monkeypatch.setenv("STRANGER", "x")
    keys = {"PASSKEY": "k1", "PASSKEY_FILE": "k2", "PASSKEY_COMMAND": "k3"}
    assert run("env", env={**keys, "a.b": "1\n2"}).ok
    assert run.output() == f"PATH={PATH}\nODF_RUN={run.run}\na.b=1\n2\n"


@pytest.mark.parametrize("env", [{"": "v"}, {"A=B": "v"}, {"A\0": "v"}, {"A": "s3cr\0t"}, {"A": "s3cr\ud800t"}])
def test_an_impossible_environment_is_refused_without_showing_values(run: Runner, env: dict[str, str]) -> None:
    with pytest.raises(BadConfig) as caught:
        run("true", env=env)
    assert "s3cr" not in str(caught.value) + run.text()
    assert caught.value.__context__ is None


def test_too_large_an_environment_is_refused(run: Runner) -> None:
    with pytest.raises(BadConfig):
        run("true", env={"BIG": "x" * 2**22})


# -- the end -----------------------------------------------------------------------------------------------------------


HOUR = 3600.0


class Clock:
    """The clock of a launch, which a test puts on by an hour as soon as something has happened."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def once(self, happened: Callable[[], object]) -> dict[str, Any]:
        """The terms of a command whose time is over by then."""

        def look() -> None:
            self.ahead = HOUR if happened() else self.ahead

        return {"timeout": HOUR, "tick": look, "every": 0.02}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.mark.fault(12)
@pytest.mark.usefixtures("company")
def test_a_timeout_ends_a_command_that_hangs(run: Runner, clock: Clock) -> None:
    ended = run.sh("echo begun; sleep 100 & sleep 100", **clock.once(lambda: "begun" in run.output()))
    assert (ended.timed_out, ended.signal, ended.tail) == (True, signal.SIGTERM, "begun")
    assert HOUR <= ended.seconds < HOUR + 100
    assert "timed out, ended by signal 15 (SIGTERM)" in run.text()


def test_a_timeout_is_over_in_its_time(run: Runner) -> None:
    ended = run.sh("sleep 100", timeout=0.5)
    assert ended.timed_out
    assert 0.5 <= ended.seconds < 100


def test_a_command_may_clean_up_in_its_grace(run: Runner, clock: Clock) -> None:
    command = "trap 'echo cleaned; exit 0' TERM; echo begun; while :; do sleep 0.05; done"
    ended = run.sh(command, grace=240, **clock.once(lambda: "begun" in run.output()))
    assert (ended.timed_out, ended.exit_code, ended.ok) == (True, 0, False)
    assert "cleaned" in ended.tail


@pytest.mark.fault(12)
@pytest.mark.usefixtures("company")
def test_a_command_that_ignores_term_is_killed_after_its_grace(run: Runner, clock: Clock) -> None:
    command = "trap '' TERM; sleep 100 & echo begun; while :; do sleep 0.05; done"
    ended = run.sh(command, grace=0.3, **clock.once(lambda: "begun" in run.output()))
    assert (ended.timed_out, ended.signal) == (True, signal.SIGKILL)
    assert HOUR + 0.3 <= ended.seconds < HOUR + 100
    assert "still runs after TERM and is killed" in run.text()


def test_a_stopped_command_ends_as_well(run: Runner, clock: Clock) -> None:
    def is_stopped() -> bool:
        found = process_tree.processes().get(int(run.output() or "0"))
        return found is not None and found.state == "T"

    ended = run.sh("echo $$; kill -STOP $$", grace=240, **clock.once(is_stopped))
    assert (ended.timed_out, ended.signal) == (True, signal.SIGTERM)
    assert ended.seconds < HOUR + 100


def test_waiting_costs_no_processor_time(run: Runner) -> None:
    before = time.process_time()
    run.sh("trap '' TERM; sleep 0.8", timeout=0.4, grace=3)
    assert time.process_time() - before < 0.35


@pytest.mark.fault(12)
@pytest.mark.usefixtures("company")
@pytest.mark.parametrize("how", ["", "deaf", "quiet"])
def test_a_daemon_that_left_the_session_is_ended_with_its_command(run: Runner, tmp_path: Path, how: str) -> None:
    assert run.daemon(how, "sleep 100", grace=0.3).cancelled
    assert not alive(int((tmp_path / "pid").read_text()))
    assert not zombies()


@pytest.mark.usefixtures("company")
@pytest.mark.parametrize("how", ["", "quiet"])
def test_a_daemon_left_by_a_successful_command_is_ended_and_named(run: Runner, tmp_path: Path, how: str) -> None:
    (tmp_path / "daemon.py").write_text(DAEMON)
    ended = run.sh(f"{sys.executable} daemon.py pid {how}; until test -e pid; do sleep 0.01; done")
    assert ended.ok
    pid = int((tmp_path / "pid").read_text())
    assert not alive(pid)
    assert f"left-over process {pid} (python" in run.text()
    assert not zombies()


@pytest.mark.fault(12)
@pytest.mark.usefixtures("company")
def test_a_daemon_that_cleared_its_environment_is_ended_as_well(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "daemon.py").write_text(DAEMON)
    ended = run.sh(f"env -i {sys.executable} daemon.py pid quiet; until test -e pid; do sleep 0.01; done; exit 3")
    assert ended.exit_code == 3
    assert not alive(int((tmp_path / "pid").read_text()))
    assert not zombies()


def test_daemons_are_found_by_their_mark_where_orphans_cannot_be_adopted(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "_prctl", lambda: lambda option, argument: False)
    assert run.daemon("", "sleep 100", env={process_tree.MARKER: "odf" + uuid.uuid4().hex[:12]}).cancelled
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not alive(pid))


@pytest.mark.parametrize("victim", ["we", "the reaper", "both"])
def test_nothing_outlives_us_however_we_die(tmp_path: Path, victim: str) -> None:
    """Not even a daemon that left session, group and environment; unless who adopts it is killed with us."""
    (tmp_path / "daemon.py").write_text(DAEMON)
    quiet = "" if victim == "we" else "setsid "
    command = f"{quiet}env -i {sys.executable} daemon.py pid quiet; echo $$ > script~; mv script~ script; sleep 100"
    process = harness(tmp_path, f"""go("bash", "-c", {command!r})""")
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "script").exists())
    pids = [int((tmp_path / name).read_text()) for name in ("script", "pid")]
    between = process_tree.processes()[pids[0]].parent
    until(lambda: process_tree.processes()[pids[1]].parent == between)  # it is adopted
    for pid in {"we": [process.pid], "the reaper": [between], "both": [between, process.pid]}[victim]:
        os.kill(pid, signal.SIGKILL)
    _, said = process.communicate(timeout=240)
    until(lambda: not alive(pids[0]))
    if victim == "we":
        until(lambda: not alive(pids[1]))
        until(lambda: not alive(between))
    else:
        os.kill(pids[1], signal.SIGKILL)  # without a mark nobody knows whose it is
    if victim == "the reaper":
        assert "the exit code is unknown" in said


@pytest.mark.parametrize("heard", ["at once", "late"])
def test_what_finishes_soon_after_the_command_may_do_so(
    run: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: str
) -> None:
    begin = reaper.Reaped.wait_started
    on_end(monkeypatch, (tmp_path / "heard").touch)

    def begun_late(child: reaper.Reaped) -> None:
        time.sleep(0.5)  # the news of the beginning and of the end come together
        begin(child)

    if heard == "late":
        monkeypatch.setattr(reaper.Reaped, "wait_started", begun_late)
    monkeypatch.setattr(module, "LINGER", 240.0)
    begun = time.monotonic()
    ended = run.sh("exec > >(until test -e heard; do sleep 0.02; done; sleep 2; cat); echo late")
    assert ended.ok
    assert ended.seconds < time.monotonic() - begun - 1
    assert run.output() == "late\n"
    assert "left-over" not in run.text()


def on_end(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """What is done when it was heard that the command has ended."""
    hear = module._Launch.poll

    def heard(launched: module._Launch) -> None:
        hear(launched)
        if launched.status is not None:
            act()

    monkeypatch.setattr(module._Launch, "poll", heard)


def test_what_had_ended_before_somebody_cancelled_was_not_cancelled(
    run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINGER", 240.0)
    cancel = threading.Event()
    on_end(monkeypatch, cancel.set)
    ended = run.sh("sleep 300 & echo done", cancel=cancel)
    assert (ended.ok, ended.cancelled, ended.exit_code) == (True, False, 0)
    assert "left-over" in run.text()


def test_orphans_that_ended_by_themselves_are_reaped(run: Runner) -> None:
    with other_child():
        assert run.py("import os, time; os.fork() or os.setsid() or os.fork() or time.sleep(0.2)").ok
    assert not zombies()


def test_a_command_that_closes_its_output_is_waited_for(run: Runner) -> None:
    ended = run.sh("exec >&- 2>&-; sleep 0.3; exit 7")
    assert ended.exit_code == 7
    assert ended.seconds >= 0.3


def test_a_stranger_that_holds_the_output_open_does_not_hold_us(run: Runner, tmp_path: Path) -> None:
    held: list[int] = []

    def hold() -> None:
        if not held and (tmp_path / "pid").exists():
            held.append(os.open(f"/proc/{(tmp_path / 'pid').read_text().strip()}/fd/1", os.O_WRONLY))
            (tmp_path / "held").touch()

    begun = time.monotonic()
    ended = run.sh(
        "echo $$ > pid~; mv pid~ pid; until test -e held; do sleep 0.01; done; echo done", tick=hold, every=0.05
    )
    os.close(held[0])
    assert ended.ok
    assert time.monotonic() - begun < 100
    assert "keeps the output open" in run.text()


# -- heartbeat and cancel ----------------------------------------------------------------------------------------------


def test_the_heartbeat_ticks_while_the_command_runs(run: Runner, tmp_path: Path) -> None:
    ticks: list[float] = []

    def tick() -> None:
        ticks.append(time.monotonic())
        if len(ticks) == 5:
            (tmp_path / "enough").touch()

    assert run.sh("yes & until test -e enough; do sleep 0.01; done; kill $!", tick=tick, every=0.1).ok
    assert all(later - earlier >= 0.1 for earlier, later in pairwise(ticks))


@pytest.mark.usefixtures("company")
@pytest.mark.parametrize("error", [LeaseLost("epoch 3 is not ours"), ValueError("x"), KeyboardInterrupt()])
def test_what_the_heartbeat_raises_ends_the_command_first(run: Runner, tmp_path: Path, error: BaseException) -> None:
    (tmp_path / "daemon.py").write_text(DAEMON)

    def tick() -> None:
        if (tmp_path / "pid").exists():
            raise error

    with pytest.raises(type(error)) as caught:
        run.sh(f"trap 'echo bye; exit 1' TERM; {sys.executable} daemon.py pid; sleep 100 & wait", tick=tick, every=0.05)
    assert caught.value is error
    assert not marked(run.run)
    assert "bye\n" in run.output()
    assert f": {type(error).__name__}: " in run.text()


def test_a_lost_lease_shortens_the_grace(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHORT_GRACE", 0.3)

    def tick() -> None:
        raise LeaseLost("gone")

    begun = time.monotonic()
    with pytest.raises(LeaseLost):
        run.sh("trap '' TERM; while :; do sleep 0.05; done", tick=tick, every=0.2, grace=600)
    assert time.monotonic() - begun < 300


def test_cancelling_from_another_thread(run: Runner) -> None:
    cancel = threading.Event()
    threading.Timer(0.2, cancel.set).start()
    ended = run.sh("sleep 100", cancel=cancel)
    assert (ended.cancelled, ended.signal, ended.ok) == (True, signal.SIGTERM, False)
    assert ended.seconds < 100


def test_of_many_at_once_in_threads_each_ends_its_own_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER", 0.3)
    (tmp_path / "daemon.py").write_text(DAEMON)
    results: dict[int, ProcessEnd] = {}
    pids = [tmp_path / str(number) / "pid" for number in range(6)]
    cancel = threading.Event()

    def one(number: int) -> None:
        (tmp_path / str(number)).mkdir()
        wait = "until test -e ../go; do sleep 0.01; done; kill -0 $(cat pid) && echo lives"
        command = f"{sys.executable} ../daemon.py pid quiet; {wait}"
        results[number] = Runner(tmp_path / str(number)).sh(command, cancel=cancel if number == 0 else None)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    until(lambda: all(pid.exists() for pid in pids))
    cancel.set()
    threads[0].join()
    assert [alive(int(pid.read_text())) for pid in pids] == [False, True, True, True, True, True]
    (tmp_path / "go").touch()
    for thread in threads:
        thread.join()
    assert [results[number].tail for number in range(6)] == ["", *["lives"] * 5]
    assert [results[number].ok for number in range(6)] == [False, *[True] * 5]
    assert not any(alive(int(pid.read_text())) for pid in pids)
    assert not zombies()


HARNESS = """
import os, signal, sys, threading, time
from pathlib import Path
import opendataflow.run.process.launch as module
import opendataflow.run.process.streams as streams
from opendataflow.run.process.command import Command
from opendataflow.run.process.launch import Terms, launch
from opendataflow.run.process.logs import LogFile

# Whoever runs the tests in the background, or under nohup, has them ignore some of these.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
    signal.signal(number, signal.SIG_DFL)
module.LINGER = 0.3
folder = Path(sys.argv[1])
def go(*argv, **options):
    with LogFile(folder / "logs", jobid="j", dataid="d", epoch=1, runid="r") as log:
        env = dict(PATH=os.environ["PATH"], ODF_RUN=str(folder))
        return launch(Command(argv, env, folder), log, Terms(**options))
"""


def harness(folder: Path, code: str, **options) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HARNESS + textwrap.dedent(code), str(folder)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command, env=OURS, text=True, **streams)


@contextlib.contextmanager
def other_child() -> Iterator[None]:
    other = subprocess.Popen(["sleep", "100"])
    try:
        yield
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


WAIT = """
    before = [signal.getsignal(number) for number in (1, 2, 3, 15)]
    ended = go("bash", "-c", "trap '' HUP INT; {trap} touch pid; while :; do sleep 0.05; done", grace={grace})
    assert before == [signal.getsignal(number) for number in (1, 2, 3, 15)]
    text = (folder / "logs/j/d.1.r.log").read_text()
    print(ended.cancelled, ended.signal, ended.exit_code, text.count("cancelled, "))
    """


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_us_ends_the_command_and_returns(tmp_path: Path, number: int) -> None:
    process = harness(tmp_path, WAIT.format(trap="trap 'exit 4' TERM;", grace=10))
    until((tmp_path / "pid").exists)
    process.send_signal(number)
    assert process.communicate(timeout=240)[0] == "True None 4 1\n"
    assert not marked(str(tmp_path))


def test_a_second_interrupt_kills_at_once(tmp_path: Path) -> None:
    process = harness(tmp_path, WAIT.format(trap="trap '' TERM;", grace=100))
    until((tmp_path / "pid").exists)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=240) == ("True 9 None 1\n", "")
    assert not marked(str(tmp_path))


def test_our_own_interrupt_while_a_heartbeat_runs(tmp_path: Path) -> None:
    code = """
        ended = go("sleep", "100", tick=lambda: os.kill(os.getpid(), signal.SIGINT), every=0.2, grace=5)
        print(ended.cancelled, ended.signal)
        """
    assert harness(tmp_path, code).communicate(timeout=240) == ("True 15\n", "")


def test_signals_that_were_ignored_stay_ignored(tmp_path: Path) -> None:
    code = """
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        print(go("sleep", "0.5", tick=lambda: os.kill(os.getpid(), signal.SIGHUP), every=0.1).cancelled)
        """
    assert harness(tmp_path, code).communicate(timeout=240) == ("False\n", "")


@pytest.mark.parametrize("thread", [False, True])
def test_an_ignored_sigchld_does_not_turn_failure_into_success(tmp_path: Path, thread: bool) -> None:
    code = f"""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        def main():
            try: print(go("false").exit_code)
            except Exception as error: print(type(error).__name__)
        if {thread}:
            threading.Thread(target=main).start()
        else:
            main()
        """
    assert harness(tmp_path, code).communicate(timeout=240)[0] == ("BadConfig\n" if thread else "1\n")


@pytest.mark.usefixtures("company")
def test_whoever_waits_for_all_children_steals_no_exit_status(run: Runner) -> None:
    def thief() -> None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    assert run.sh("sleep 0.3; exit 3", tick=thief, every=0.01).exit_code == 3


def test_after_being_stopped_ourselves_the_heartbeat_comes_first(tmp_path: Path) -> None:
    code = """
        from opendataflow.errors import LeaseLost
        def tick():
            if (folder / "successor").exists(): raise LeaseLost("successor")
        try: go("bash", "-c", "echo $$ > pid; sleep 100", tick=tick, every=0.2)
        except LeaseLost: print("lost")
        """
    process = harness(tmp_path, code)
    until((tmp_path / "pid").exists)
    process.send_signal(signal.SIGSTOP)
    until(lambda: process_tree.processes()[process.pid].state == "T")
    (tmp_path / "successor").touch()
    time.sleep(0.3)  # longer than between two heartbeats
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=240) == ("lost\n", "")
    assert not marked(str(tmp_path))


# -- our own output ----------------------------------------------------------------------------------------------------


def test_a_closed_pipe_does_not_end_the_job(tmp_path: Path) -> None:
    code = """
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        ended = go("bash", "-c", "seq 100000; echo last; exit 5")
        print(ended.exit_code, ended.tail.split()[-1], file=sys.stderr)
        """
    process = harness(tmp_path, code)
    assert process.stdout
    process.stdout.close()
    assert process.stderr
    with process.stderr:
        assert process.stderr.read() == "5 last\n"
    process.wait()
    assert "\nlast\n" in (tmp_path / "logs/j/d.1.r.log").read_text()


def test_a_slow_pipe_loses_nothing_and_the_heartbeat_goes_on(tmp_path: Path) -> None:
    code = """
        def tick(): (folder / "ticks").open("a").write("x")
        ended = go("bash", "-c", "seq 200000; echo error >&2", tick=tick, every=0.1)
        print(ended.exit_code, file=sys.stderr)
        """
    process = harness(tmp_path, code)
    until(lambda: (tmp_path / "ticks").exists() and len((tmp_path / "ticks").read_text()) > 8)
    assert process.poll() is None
    assert process.communicate(timeout=240) == ("".join(f"{number}\n" for number in range(1, 200001)), "error\n0\n")


def test_both_outputs_into_one_pipe_that_nobody_reads_do_not_block_the_heartbeat(tmp_path: Path) -> None:
    code = """
        ticks, cancel = [], threading.Event()
        def tick():
            ticks.append("x")
            if len(ticks) > 10: cancel.set()
        ended = go("bash", "-c", "yes & yes >&2", tick=tick, every=0.05, cancel=cancel)
        (folder / "ended").write_text(f"{ended.cancelled} {len(ticks) > 10}")
        """
    process = harness(tmp_path, code, stderr=subprocess.STDOUT)
    process.wait(timeout=240)
    assert (tmp_path / "ended").read_text() == "True True"
    assert process.stdout
    process.stdout.close()


def test_a_stuck_terminal_does_not_stop_the_job(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    try:
        code = """
            streams.STALL = 0.3
            ended = go("bash", "-c", "seq 300000; exit 6")
            (folder / "ended").write_text(str(ended.exit_code))
            """
        process = harness(tmp_path, code, stdout=slave, stderr=subprocess.DEVNULL)
        assert process.wait(timeout=240) == 0
        assert (tmp_path / "ended").read_text() == "6"
        assert "\n300000\n" in (tmp_path / "logs/j/d.1.r.log").read_text()
        assert os.get_blocking(slave)
    finally:
        os.close(master)
        os.close(slave)


def test_a_terminal_shows_everything_in_order(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    process = harness(tmp_path, 'go("bash", "-c", "seq 50000")', stdout=slave, stderr=slave)
    os.close(slave)
    data = b""
    with contextlib.suppress(OSError):
        while piece := os.read(master, 65536):
            data += piece
    os.close(master)
    assert process.wait() == 0
    assert data == b"".join(b"%d\r\n" % number for number in range(1, 50001))


# -- trouble -----------------------------------------------------------------------------------------------------------


@pytest.mark.fault(10)
def test_a_full_disk_cuts_the_log_and_not_the_job(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    log, real = run.new_log(), os.pwrite

    def full(handle: int, data: bytes, offset: int) -> int:
        if offset + len(data) > 100_000:
            raise OSError(28, "No space left on device")
        return real(handle, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    ended = run.sh("seq 100000; exit 5", log=log)
    assert ended.exit_code == 5
    assert log.failed
    assert "the log is cut here: No space left on device" in run.text()
    assert "exit code 5" in run.text()[-200:]


def test_an_error_in_here_leaves_nothing_running(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, now: float) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(Stream, "balance", broken)
    with pytest.raises(RuntimeError, match="bug"):
        run.sh("echo begun; sleep 100 & sleep 100")
    assert not marked(run.run)


def test_no_file_stays_open(run: Runner) -> None:
    run("true", echo=True)
    before = sorted(os.listdir("/proc/self/fd"))
    run("true", echo=True)
    with pytest.raises(BadConfig):
        run("no-such")
    run.sh("sleep 9", timeout=0.1, echo=True)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_importing_it_brings_nothing_heavy() -> None:
    heavy = "{'ctypes', 'asyncio', 'rich', 'click', 'apsw', 'cryptography', 'pyspark', 'opendataflow.model'}"
    code = f"import sys, opendataflow.run.process.launch, opendataflow.run.process.logs; sys.exit(len({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], env=OURS).returncode == 0
