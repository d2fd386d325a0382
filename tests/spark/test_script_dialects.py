"""What a script writes is read as it was judged: in the way of its own tools, not in that of our writer."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.shell import Answer

FLAGS = 'checks = { accepted = { flag = ["x", "y"] }, rows = { min = 2 } }'


class Written(NamedTuple):
    """What is declared of a dataset, what the script writes, and the flags that its readers get."""

    declared: str
    text: str
    flags: list[str | None]


WRITTEN = {
    "header": Written(FLAGS, "id,flag\r\n1,x\r\n2,y\r\n", ["x", "y"]),
    "unchecked": Written('schema = "id INT, flag STRING"', "id,flag\r\n1,x\r\n2,y\r\n", ["x", "y"]),
    "bare": Written(
        f'schema = "id INT, flag STRING"\noptions = {{ header = false }}\n{FLAGS}', "1,x\r\n2,y\r\n", ["x", "y"]
    ),
    "quotes": Written(FLAGS, 'id,flag\n1,x\n2,""\n', ["x", None]),
    "text": Written('format = "text"\nchecks = { accepted = { value = ["x", "y"] } }', "x\r\ny\r\n", ["x", "y"]),
}


@pytest.mark.parametrize("layout", ["plain", "versioned"])
def test_a_spark_job_reads_what_a_script_wrote_as_it_was_judged(
    desk: Callable[..., Answer], tmp_path: Path, layout: str
) -> None:
    toml, script, code = (
        '[spark]\nmaster = "local[1]"\n[dataset.raw]\n',
        "#!/bin/sh\n",
        "from opendataflow import job\n",
    )
    (tmp_path / "jobs").mkdir()
    for name, (declared, text, _) in WRITTEN.items():
        toml += f'[dataset.{name}]\nlocation = "{name}/{{dataid}}"\nlayout = "{layout}"\n{declared}\n'
        toml += "" if "format" in declared else 'format = "csv"\n'
        toml += f'[dataset.{name}_copy]\nlocation = "{name}_copy/{{dataid}}"\nformat = "json"\n'
        script += f'mkdir -p "${name}_location"; cp {name}.rows "${name}_location/rows"\n'
        code += f'@job(reads="{name}", writes="{name}_copy")\ndef copy_{name}({name}):\n    return {name}\n'
        (tmp_path / f"{name}.rows").write_bytes(text.encode())
    toml += f'[job.make]\nreads = ["raw"]\nwrites = {json.dumps([*WRITTEN])}\n'
    (tmp_path / "dataflow.toml").write_text(toml)
    (tmp_path / "jobs/copy.py").write_text(code)
    (tmp_path / "jobs/make.sh").write_text(script)
    (tmp_path / "jobs/make.sh").chmod(stat.S_IRWXU)
    desk("apply", "--yes")
    desk("ready", "raw", "1")
    desk("drain")
    for name, written in WRITTEN.items():
        files = tmp_path.glob(f"{name}_copy/1/v*/*.json")
        rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        assert [row.get("flag", row.get("value")) for row in rows] == written.flags, name
