"""The rule for data files as a table of names: disks, fsspec and Spark must all agree with it."""

from __future__ import annotations

# path below the location: is it data?
NAMES = {
    "part-00000.txt": True,
    "a b%20ä+.txt": True,
    "x=1/part.txt": True,
    "_x=1/part.txt": True,
    "_x=1/y=2/part.txt": True,
    "_y=2.txt": True,
    "x=1/_y=2/_SUCCESS": False,
    "x=1/.hidden.txt": False,
    "_SUCCESS": False,
    "_committed_7": False,
    "_notes.txt": False,
    "_metadata": False,
    "_common_metadata": False,
    "_metadata.txt": False,
    "_temporary/0/part.txt": False,
    ".part-00000.txt.crc": False,
    ".x=1/part.txt": False,
    "part-00001.txt._COPYING_": False,
}
