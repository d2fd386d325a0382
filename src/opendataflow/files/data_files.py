"""Defines which files of a folder are its data; used wherever a folder is listed, hashed, compared or read.

The rule is that of Spark's readers, applied to every part of the path below the location:

| name                              | data? | because                                                      |
| --------------------------------- | ----- | ------------------------------------------------------------ |
| `part-0.csv`, `a/b.csv`           | yes   | an ordinary name, at any depth                               |
| `_x=1/part-0.csv`                 | yes   | `name=value` is a partition, also of a column called `_x`    |
| `_SUCCESS`, `_tmp/part-0.csv`     | no    | `_` marks what belongs to the writer                         |
| `_metadata`, `_common_metadata`   | no    | Parquet's summaries repeat what the data files say           |
| `.part-0.csv.crc`, `.x=1/a.csv`   | no    | `.` hides, also a partition                                  |
| `part-0.csv._COPYING_`            | no    | Hadoop is still copying it                                   |

It differs from Spark in two points. A location that is one file is data under any name, since the dataset names it.
Nested folders count even if they are not partitions, and so do empty files: everything that a script writes is its data.
"""

from __future__ import annotations


def is_data(path: str) -> bool:
    """Whether a file at this path, relative to the location of its chunk, is data."""
    return not any(map(_is_hidden, path.split("/")))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.endswith("._COPYING_") or (name.startswith("_") and "=" not in name)
