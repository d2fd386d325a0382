"""Replacing: what an attempt prepared takes a fixed location, and no earlier attempt can take it afterwards."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from secrets import token_hex

from ..errors import InvalidPath, LeaseLost, NoSpace
from .listing import names, remove
from .versions import leftover_of, replaced_location

FULL = (errno.ENOSPC, errno.EDQUOT)

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NOT_HERE = (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP)


def revoke(location: str, epoch: int) -> None:
    """Take away what earlier attempts prepared for a fixed location.

    One of them may have been frozen after its last look at the fence: when it wakes up, it has nothing to put there.
    """
    if epoch < 2:
        return
    folder = os.path.dirname(location)
    for name in names(folder):
        leftover = leftover_of(name, location)
        if leftover is not None and leftover.epoch < epoch and not leftover.is_replaced:
            # In one step, under a name that only vacuum knows; what is in it may then take its time.
            gone = os.path.join(folder, f"{name[: name.rindex('-v')]}-v{leftover.epoch:06d}-{token_hex(3)}")
            try:
                os.rename(os.path.join(folder, name), gone)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise InvalidPath(
                    f"{os.path.join(folder, name)}, which an earlier attempt left, cannot be taken away: {error.strerror}",
                    hint="Check its permissions: that attempt could still replace what is published.",
                ) from None
            with suppress(OSError):
                remove(gone)


def swap_in(prepared: str, location: str, staged: str) -> None:
    """Put what was prepared at a fixed location instead of what is there, in one step where the system can.

    `staged` names the attempt, beside the location. LeaseLost when what was prepared is gone: a later attempt revoked it.
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
            f"what was written for {location} is gone: a later attempt has the chunk",
            hint="Its successor's work stands.",
        ) from None
    except OSError as error:
        problem = NoSpace if error.errno in FULL else InvalidPath
        raise problem(f"{location} cannot be replaced: {error.strerror}") from None


def check_kinds(prepared: str, location: str) -> None:
    """InvalidPath where a file would have to take the place of a folder, or a folder that of a file."""
    new, there = _lstat(prepared), _lstat(location)
    if new is not None and there is not None and stat.S_ISDIR(new.st_mode) != stat.S_ISDIR(there.st_mode):
        kinds = ("a folder", "a file") if stat.S_ISDIR(there.st_mode) else ("a file", "a folder")
        raise InvalidPath(
            f"{location} is {kinds[0]}, and {kinds[1]} was written to take its place",
            hint="If it may go, move it away, and have the chunk produced again.",
        )


def _lstat(location: str) -> os.stat_result | None:
    try:
        return os.lstat(location)
    except FileNotFoundError:
        return None


def _exchange(one: str, other: str) -> bool:
    """Let two folders change places; False where the system cannot do that in one step."""
    import ctypes  # takes milliseconds, and few locations are folders that are replaced

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
        os.rename(old, location)  # it was revoked meanwhile: what is there stays
        raise
    remove(old)
