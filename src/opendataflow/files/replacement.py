"""Moves the staged output of an attempt to a fixed location, fenced against earlier attempts."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from ..errors import InvalidPath, LeaseLost, NoSpace
from .listing import names, remove
from .versions import leftover_of, replaced_location

FULL = (errno.ENOSPC, errno.EDQUOT)

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NOT_HERE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


def revoke(location: str, epoch: int) -> None:
    """Remove the output that earlier attempts staged for a fixed location.

    An earlier attempt may be suspended after its last fence check: when it resumes, it has nothing to move.
    """
    if epoch < 2:
        return
    folder = os.path.dirname(location)
    for name in names(folder):
        leftover = leftover_of(name, location)
        if leftover is not None and leftover.epoch < epoch and not leftover.is_replaced:
            # Renaming is atomic; the new name is known only to vacuum. Removing the contents may take longer.
            gone = os.path.join(folder, f"{name[: name.rindex('-v')]}-v{leftover.epoch:06d}-{os.urandom(3).hex()}")
            try:
                os.rename(os.path.join(folder, name), gone)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise InvalidPath(
                    f"{os.path.join(folder, name)}of an earlier attempt cannot be removed: {error.strerror}",
                    hint="Check its permissions: that attempt could still replace what is published.",
                ) from None
            with suppress(OSError):
                remove(gone)


def swap_in(prepared: str, location: str, staged: str) -> None:
    """Replace a fixed location by the prepared output, atomically if the system supports it.

    `staged` is the attempt's staging path beside the location. LeaseLost if a later attempt revoked the prepared output.
    """
    try:
        new = os.lstat(prepared)
        there = _lstat(location)
        check_kinds(prepared, location)
        if there is None or (stat.S_ISREG(new.st_mode) and not stat.S_ISDIR(there.st_mode)):
            os.replace(prepared, location)
        elif _exchange(prepared, location):
            remove(prepared)
        else:
            _in_two_steps(prepared, location, replaced_location(staged))
    except FileNotFoundError:
        raise LeaseLost(
            f"the output for {location} was revoked: a later attempt has the chunk",
            hint="The output of the later attempt is kept.",
        ) from None
    except OSError as error:
        problem = NoSpace if error.errno in FULL else InvalidPath
        raise problem(f"{location} cannot be replaced: {error.strerror}") from None


def check_kinds(prepared: str, location: str) -> None:
    """InvalidPath if a file would replace a folder, or a folder a file."""
    new, there = _lstat(prepared), _lstat(location)
    if new is not None and there is not None and stat.S_ISDIR(new.st_mode) != stat.S_ISDIR(there.st_mode):
        kinds = ("a folder", "a file") if stat.S_ISDIR(there.st_mode) else ("a file", "a folder")
        raise InvalidPath(
            f"{location} is {kinds[0]}, and its replacement is {kinds[1]}",
            hint="If it is not needed, move it away, then produce the chunk again.",
        )


def _lstat(location: str) -> os.stat_result | None:
    try:
        return os.lstat(location)
    except FileNotFoundError:
        return None


def _exchange(one: str, other: str) -> bool:
    """Exchange two folders atomically; False if the system does not support it."""
    import ctypes  # lazy: slow to import, and rarely needed

    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_HERE:
        return False
    raise OSError(number, os.strerror(number))


def _in_two_steps(prepared: str, location: str, old: str) -> None:
    os.rename(location, old)
    try:
        os.rename(prepared, location)
    except OSError:
        os.rename(old, location)  # revoked concurrently: the published output stays
        raise
    remove(old)
