"""What arrives is not always a file: the trouble of one chunk is its own."""

from __future__ import annotations

import os
import socket

import pytest

from tests.support.shell import Shell, statuses

TOML = """
[environment.dev]
roots = ["./data"]

[dataset.raw]
location = "raw/{dataid}.csv"

[dataset.parts]
location = "parts/{dataid}"
"""


def place(shell: Shell) -> None:
    shell.write("dataflow.toml", TOML)
    shell.odf("apply", "--yes")
    for name in ("raw/a.csv", "raw/z.csv", "parts/a/1.csv", "parts/z/1.csv"):
        shell.write(f"data/{name}", f"{name}\n")
    for folder, name in (("data/raw", "pipe.csv"), ("data/parts/pipe", "1.csv")):
        (shell.folder / folder).mkdir(exist_ok=True)
        os.mkfifo(shell.folder / folder / name)
    for folder, name in (("data/raw", "socket.csv"), ("data/parts/socket", "1.csv")):
        (shell.folder / folder).mkdir(exist_ok=True)
        with socket.socket(socket.AF_UNIX) as made:
            descriptor = os.open(shell.folder / folder, os.O_RDONLY)
            made.bind(f"/proc/self/fd/{descriptor}/{name}")  # the name of a socket must be short
            os.close(descriptor)
    shell.write("data/raw/locked.csv", "locked\n").chmod(0)
    shell.write("data/parts/locked/deep/1.csv", "locked\n").parent.chmod(0)


@pytest.mark.parametrize("dataset", ["raw", "parts"])
def test_a_pipe_a_socket_and_an_unreadable_file_stop_no_other_chunk(shell: Shell, dataset: str) -> None:
    place(shell)
    found = shell.odf("discover", dataset, "--quiet-for", "0", "--json", code=None)
    verdicts = {chunk["dataid"]: chunk["verdict"] for chunk in found.data}
    expected = dict.fromkeys(("pipe", "socket", "locked"), "INVALID_PATH")
    if os.geteuid() == 0:  # root may read everything
        expected["locked"] = "READY"
    assert verdicts == {**expected, "a": "READY", "z": "READY"}
    assert found.code == 12
    assert {chunk["dataid"]: chunk["why"] for chunk in found.data}["pipe"].endswith(
        "is a named pipe, not a regular file"
    )
    published = {dataid for (_, dataid), status in statuses(shell).items() if status == "READY"}
    assert {"a", "z"} <= published
    assert not {"pipe", "socket"} & published
    shell.odf("ready", dataset, "pipe", code=12)
    again = shell.odf("discover", dataset, "--quiet-for", "0", "--json", code=12).data
    assert {"a", "z"}.isdisjoint(chunk["dataid"] for chunk in again), "what is known is left alone"


def test_a_chunk_that_became_a_pipe_after_it_was_announced_is_refused_without_waiting(shell: Shell) -> None:
    place(shell)
    shell.dml(
        "insert into dataset (datasetid) values ('done')",
        "insert into job (jobid, itemtype, datasetid) values ('load', 'IN', 'raw'), ('load', 'OUT', 'done')",
    )
    shell.odf("ready", "raw", "a")
    path = shell.folder / "data/raw/a.csv"
    path.unlink()
    os.mkfifo(path)
    shell.script("load.sh", "cat $raw_location")
    refused = shell.runjob("./load.sh", "a", code=12)
    assert "a named pipe" in refused.err


def test_names_that_do_not_fit_the_partition_are_named_in_one_line_and_stop_nothing(shell: Shell) -> None:
    partition = 'partition = "day"\nready = { marker = "{dataid}.done" }\n'
    shell.write(
        "dataflow.toml", f"{TOML}{partition}".replace("raw/{dataid}.csv", 'raw/{dataid}.csv"\npartition = "day')
    )
    shell.odf("apply", "--yes")
    for name in ("2025-11-12", "2025-11-32", "2025-02-30", "_half", ".hidden", "a", "b"):
        shell.write(f"data/raw/{name}.csv", f"{name}\n")
    found = shell.odf("discover", "raw", "--quiet-for", "0")
    assert "2025-11-12  READY" in found.out
    (line,) = (each for each in found.err.splitlines() if "partition" in each)
    assert (
        line == "raw: 4 names fit no day of its partition, and are left out: 2025-02-30.csv, 2025-11-32.csv, a.csv, …"
    )
    for name in ("2025-11-12/1.csv", "2025-11-12.done"):
        shell.write(f"data/parts/{name}", "1\n")
    assert "partition" not in shell.odf("discover", "parts").err, "a marker is no chunk"
