"""Which tests share a process when several run at once, and which begin first.

Our own rule, by path: the marks of pytest-xdist group nothing with pytest 9.2 (pytest-xdist issue 1386).
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

_SHARED = ("spark", "browser")  # folders whose tests share something big
_FIRST = (
    *_SHARED,
    "faults",
    "histories",
    "acceptance",
)  # what takes long begins first, so that no process is left with it in the end
_LAST = ("unit",)
_APART = ("histories",)  # each test by itself: they share nothing and take long


def folder_of(nodeid: str) -> str:
    """The folder of tests that a test is in: acceptance of tests/acceptance/test_look.py::test_it."""
    return nodeid.partition("::")[0].removeprefix("tests/").partition("/")[0]


def begins(nodeid: str) -> int:
    """The rank of a test among all: the lowest begins first."""
    folder = folder_of(nodeid)
    if folder in _FIRST:
        return _FIRST.index(folder)
    return len(_FIRST) + (folder in _LAST)


class Together(LoadScopeScheduling):  # type: ignore[misc]  # it carries no types
    """Gives a process one file after another; some folders as a whole, and some tests one by one."""

    def _split_scope(self, nodeid: str) -> str:
        folder = folder_of(nodeid)
        if folder in _APART:
            return nodeid
        return folder if folder in _SHARED else nodeid.partition("::")[0]
