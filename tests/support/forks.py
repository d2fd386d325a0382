"""`odf` as a process that is there at once: forked from one that has imported the program, each time anew.

It has its own environment, folder, streams and end, as any other; only what an interpreter does before the first line of
ours is not done again. Whatever wants an interpreter that is told otherwise gets a real one, and so does everybody in a
soak.
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

# What an interpreter, or the program while it is imported, looks at when it starts; a key has to be kept out of /proc too.
_ITS_OWN = ("PYTHON", "LC_", "LANG", "LD_", "TZ", "MALLOC_", "ODF_FAULT", "PASSKEY", "NEW_PASSKEY")
_SAME_TO_US = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
_ROOMS = ("cli", "steer", "insight", "run", "gate", "project", "secrets", "store", "files", "api", "model", "shapes")
_RARE = (
    "opendataflow.cli.serve",
    "opendataflow.store.transfer.foreign_tables",
)  # they bring much that no other verb needs

soaking = False  # whether there is time for an interpreter of its own for every command


def run_odf(
    arguments: list[str], *, cwd: Path, env: Mapping[str, str], stdin: bytes, timeout: float
) -> subprocess.CompletedProcess[bytes]:
    """Run one command line to its end, as subprocess.run does."""
    told = {name: value for name, value in env.items() if name.startswith(_ITS_OWN) and name not in _SAME_TO_US}
    utf8 = told.get("PYTHONIOENCODING") == "utf-8"
    if utf8:
        del told["PYTHONIOENCODING"]
    if soaking or any(os.environ.get(name) != value for name, value in told.items()) or not Path(cwd).is_dir():
        command = [sys.executable, "-m", "opendataflow", *arguments]
        return subprocess.run(command, cwd=cwd, env=env, input=stdin, capture_output=True, timeout=timeout)
    os.umask(mask := os.umask(0))
    request = {"arguments": arguments, "cwd": str(cwd), "env": dict(env), "utf8": utf8, "umask": mask}
    return _ask(json.dumps(request).encode(), arguments, stdin, timeout)


def _ask(request: bytes, arguments: list[str], stdin: bytes, timeout: float) -> subprocess.CompletedProcess[bytes]:
    pipes = [os.pipe() for _ in range(3)]
    (read_in, write_in), (read_out, write_out), (read_err, write_err) = pipes
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(_waiting())
        socket.send_fds(asked, [b"!"], [read_in, write_out, write_err])
        asked.sendall(request)
        asked.shutdown(socket.SHUT_WR)
        for each in (read_in, write_out, write_err):
            os.close(each)
        said: dict[int, bytes] = {}
        talks = [threading.Thread(target=_read, args=(each, said)) for each in (read_out, read_err)]
        talks.append(threading.Thread(target=_write, args=(write_in, stdin)))
        for talk in talks:
            talk.start()
        with asked.makefile("r") as answer:
            pid = int(answer.readline())
            if not select.select([asked], [], [], timeout)[0]:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(arguments, timeout)
            code = int(answer.readline())
        for talk in talks:
            talk.join()
    return subprocess.CompletedProcess(arguments, code, said[read_out], said[read_err])


def _read(pipe: int, said: dict[int, bytes]) -> None:
    with open(pipe, "rb") as file:
        said[pipe] = file.read()


def _write(pipe: int, text: bytes) -> None:
    with suppress(BrokenPipeError), open(pipe, "wb") as file:  # whoever is told may not want to know
        file.write(text)


# The process that waits -------------------------------------------------------------------------------------------------

_started: dict[str, subprocess.Popen[bytes]] = {}
_lock = threading.Lock()


def _waiting() -> str:
    """The address of the process that is forked; started when it is first needed."""
    with _lock:
        address = f"\0odf-forks-{os.getpid()}"
        if address not in _started:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHONIOENCODING")}
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(address)
            listener.listen(64)
            command = [sys.executable, str(Path(__file__)), str(listener.fileno())]
            with listener:
                _started[address] = subprocess.Popen(
                    command, stdin=subprocess.PIPE, env=environment, pass_fds=[listener.fileno()]
                )
            atexit.register(_started[address].communicate)
        return address


def _wait(listener: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Fork for everybody who asks; returns in what was forked, with what it is to be."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
    while True:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
        if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
            os._exit(0)  # the tests are over
        asked, _ = listener.accept()
        if os.fork():
            asked.close()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _, streams, _, _ = socket.recv_fds(asked, 1, 3)
        with asked.makefile("rb") as request:
            wanted = json.load(request)
        pid = os.fork()
        if not pid:
            return wanted, streams
        for each in streams:
            os.close(each)
        asked.sendall(f"{pid}\n".encode())
        _, status = os.waitpid(pid, 0)
        with suppress(OSError):  # whoever asked gave up
            asked.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)


def _become(wanted: dict[str, Any], streams: list[int]) -> list[str]:
    """What an interpreter would have made of what it is told; the arguments."""
    for number, each in enumerate(streams):
        os.dup2(each, number)
    os.closerange(3, max(streams) + 16)
    os.chdir(wanted["cwd"])
    os.umask(wanted["umask"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    encoding = "utf-8" if wanted["utf8"] else sys.stdout.encoding
    sys.stdin = io.TextIOWrapper(os.fdopen(0, "rb"), encoding, sys.stdin.errors)
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb"), encoding, sys.stdout.errors)
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb"), encoding, "backslashreplace", line_buffering=True)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    sys.path[0] = wanted["cwd"]
    sys.argv = [str(Path(str(sys.modules["opendataflow"].__file__)).with_name("__main__.py")), *wanted["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments: list[str] = wanted["arguments"]
    return arguments


def _end(code: Any) -> None:
    """End as an interpreter does, but for what it would take to pieces before."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            stream.flush()
    os._exit(code or 0)


def import_program() -> None:
    """Import whatever a verb may import later."""
    import opendataflow

    for module in walk_packages(opendataflow.__path__, "opendataflow."):
        if module.name.split(".")[1] in _ROOMS and module.name not in _RARE:
            import_module(module.name)


if __name__ == "__main__":
    import_program()
    gc.freeze()
    become = _wait(socket.socket(fileno=int(sys.argv[1])))
    from opendataflow.cli import main

    try:
        main(_become(*become))
    except SystemExit as end:
        _end(end.code)
