"""What holds for the repository as a whole."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from opendataflow import errors

Row = tuple[str, str | None, str | None, int | None]

TREE_LINE = re.compile(r"^    (?P<branch>[│├└─ ]*)(?P<cls>[A-Z]\w+)(?: +(?P<name>[A-Z_]{2,}) +(?P<code>\d+))?(?: |$)")


def described() -> list[Row]:
    """The tree in the docstring of errors.py: (class, parent, name, exit code)."""
    rows: list[Row] = []
    path: list[str] = []
    for match in filter(None, map(TREE_LINE.match, (errors.__doc__ or "").splitlines())):
        depth = len(match["branch"]) // 4
        parent = path[depth - 1] if depth else None
        path[depth:] = [match["cls"]]
        rows.append((match["cls"], parent, match["name"], int(match["code"]) if match["code"] else None))
    return rows


def defined() -> list[Row]:
    """The same from the classes themselves; a class without a name of its own only groups others."""
    rows: list[Row] = []
    for cls in vars(errors).values():
        if isinstance(cls, type) and issubclass(cls, errors.OdfError):
            parent = cls.__base__ if cls is not errors.OdfError else None
            has_name = parent is not None and "name" in vars(cls)
            rows.append(
                (
                    cls.__name__,
                    parent.__name__ if parent else None,
                    cls.name if has_name else None,
                    cls.exit_code if has_name else None,
                )
            )
    return rows


def test_the_tree_of_errors_is_the_one_in_the_docstring():
    assert described() == defined()


def test_every_error_has_a_name_of_its_own():
    names = [name for _, _, name, _ in defined() if name]
    assert names == list(errors.BY_NAME)
    assert all(re.fullmatch(r"[A-Z]+(_[A-Z]+)*", name) for name in names)


@pytest.mark.parametrize(("name", "error"), errors.BY_NAME.items())
def test_an_error_is_found_by_its_name(name: str, error: type[errors.OdfError]):
    assert (error.name, error.exit_code) == (name, errors.exit_code_of(name))


def test_a_name_that_no_error_has_is_an_error_like_any_other():
    assert errors.exit_code_of("NO_SUCH_NAME") == errors.OdfError.exit_code


def test_importing_the_package_does_not_import_spark():
    program = "import sys, opendataflow, opendataflow.errors; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
