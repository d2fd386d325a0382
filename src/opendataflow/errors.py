"""Defines every error: one class, one name and one exit code each.

    OdfError
    ├── Refused                 a question was answered with no
    │   ├── DataNotReady        DATA_NOT_READY    10   an input chunk is not READY
    │   ├── WrongData           WRONG_DATA        11   the chunk is not the data its dataid promises
    │   ├── InvalidPath         INVALID_PATH      12   the location is outside the environment, missing or not writable
    │   ├── NotValidated        NOT_VALIDATED     13   checks did not pass, or the data changed after they did
    │   ├── Locked              LOCKED            14   a status, a running job or a full pool forbids it
    │   └── UntrustedDefinition UNTRUSTED_DEFINITION 18 the store's definition differs from the project's files
    ├── NothingToDo             NOTHING_TO_DO     15   no candidate at all (exit 0 by default)
    ├── LeaseLost               LEASE_LOST        16   another attempt or status change ended the lease
    ├── BadKey                  BAD_KEY           17   a secret cannot be decrypted with this key
    ├── JobFailed               JOB_FAILED         1   the job itself failed
    │   ├── NoSpace             NO_SPACE           1   a disk or quota is full
    │   └── TimedOut            TIMED_OUT          1   the job ran longer than its timeout
    ├── PromiseBroken           PROMISE_BROKEN     1   odf chaos found that a promise was not kept
    ├── Cancelled               CANCELLED        130   an operator cancelled the run, and its processes were ended
    ├── Stopped                 STOPPED          130   a signal or odf end RUN RESUBMIT|HOLD stopped the run; no try is used up
    ├── Aborted                 ABORTED          130   the command was interrupted, or a confirmation was declined
    ├── ProjectChanged      PROJECT_CHANGED   19   a following drain ended, since the files that it had read changed: start it again
    ├── Internal                INTERNAL          70   a bug in OpenDataFlow
    ├── StoreUnreachable        STORE_UNREACHABLE 75   the store is unreachable, busy for too long, or out of space
    ├── StoreDamaged            STORE_DAMAGED     75   the store's database cannot be read: restore a backup
    └── UsageError              USAGE              2   the request is invalid
        ├── UnknownJob          UNKNOWN_JOB        2
        ├── UnknownDataset      UNKNOWN_DATASET    2
        ├── UnknownRun          UNKNOWN_RUN        2
        ├── UnknownVersion      UNKNOWN_VERSION    2
        ├── UnknownPool         UNKNOWN_POOL       2
        ├── UnknownStatus       UNKNOWN_STATUS     2
        ├── BadId               BAD_ID             2   an id outside the grammar
        ├── BadDataid           BAD_DATAID         2   a dataid that is malformed for its dataset's type
        ├── BadTime             BAD_TIME           2   text that is not a point in time
        ├── BadDefinition       BAD_DEFINITION     2   an invalid dataset, job, check or pool
        │   ├── BadMapping      BAD_MAPPING        2   a mapping between incompatible types
        │   ├── TwoProducers    TWO_PRODUCERS      2   two jobs write one dataset
        │   └── Cycle           CYCLE              2   jobs depend on one another in a cycle
        ├── BadConfig           BAD_CONFIG         2   the project file or a setting is wrong
        ├── BadJob              BAD_JOB            2   the code of a job would share a Spark session or name between chunks
        ├── BadTransition       BAD_TRANSITION     2   the lock table does not allow this change of status
        ├── StoreMissing        STORE_MISSING      2   there is no store at this address
        ├── StoreTaken          STORE_TAKEN        2   the schema holds tables of another program
        ├── StoreReadOnly       STORE_READ_ONLY    2   the store cannot be written
        ├── SchemaOlder         SCHEMA_OLDER       2   the store's schema is older than this program: odf migrate
        ├── SchemaNewer         SCHEMA_NEWER       2   the store's schema is newer than this program: upgrade
        ├── SchemaChanged       SCHEMA_CHANGED     2   the store's schema was made by a different build, or a table is missing
        ├── MissingDependency   MISSING_DEPENDENCY 2   an optional package or program is not installed
        ├── NotLoggedIn         NOT_LOGGED_IN      2   the console request is not signed in
        ├── Forbidden           FORBIDDEN          2   the user's role does not allow the request, or it is cross-site
        ├── NoSuchPage          NO_SUCH_PAGE       2   the console has no page at this address
        └── TooLarge            TOO_LARGE          2   the request to the console is too large

Tests and callers branch on the class or the name, never on the prose.
"""

from __future__ import annotations

BY_NAME: dict[str, type[OdfError]] = {}


def exit_code_of(name: str) -> int:
    """The exit code of an outcome."""
    return BY_NAME.get(name, OdfError).exit_code


class OdfError(Exception):
    """An error: a message that says what happened, and a hint that says what to do."""

    name = "ERROR"
    exit_code = 1

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):  # a class without its own name only groups others
            BY_NAME[cls.name] = cls

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class Refused(OdfError):
    """One of the five questions was answered no."""


class DataNotReady(Refused):
    name, exit_code = "DATA_NOT_READY", 10


class WrongData(Refused):
    name, exit_code = "WRONG_DATA", 11


class InvalidPath(Refused):
    name, exit_code = "INVALID_PATH", 12


class NotValidated(Refused):
    name, exit_code = "NOT_VALIDATED", 13


class Locked(Refused):
    name, exit_code = "LOCKED", 14


class UntrustedDefinition(Refused):
    name, exit_code = "UNTRUSTED_DEFINITION", 18


class NothingToDo(OdfError):
    name, exit_code = "NOTHING_TO_DO", 15


class LeaseLost(OdfError):
    name, exit_code = "LEASE_LOST", 16


class BadKey(OdfError):
    name, exit_code = "BAD_KEY", 17


class JobFailed(OdfError):
    name, exit_code = "JOB_FAILED", 1


class NoSpace(JobFailed):
    name = "NO_SPACE"


class TimedOut(JobFailed):
    name = "TIMED_OUT"


class PromiseBroken(OdfError):
    name, exit_code = "PROMISE_BROKEN", 1


class Cancelled(OdfError):
    name, exit_code = "CANCELLED", 130


class Stopped(OdfError):
    name, exit_code = "STOPPED", 130


class Aborted(OdfError):
    name, exit_code = "ABORTED", 130


class ProjectChanged(OdfError):
    name, exit_code = "PROJECT_CHANGED", 19


class Internal(OdfError):
    name, exit_code = "INTERNAL", 70


class StoreUnreachable(OdfError):
    name, exit_code = "STORE_UNREACHABLE", 75


class StoreDamaged(OdfError):
    name, exit_code = "STORE_DAMAGED", 75


class UsageError(OdfError):
    name, exit_code = "USAGE", 2


class UnknownJob(UsageError):
    name = "UNKNOWN_JOB"


class UnknownDataset(UsageError):
    name = "UNKNOWN_DATASET"


class UnknownRun(UsageError):
    name = "UNKNOWN_RUN"


class UnknownVersion(UsageError):
    name = "UNKNOWN_VERSION"


class UnknownPool(UsageError):
    name = "UNKNOWN_POOL"


class UnknownStatus(UsageError):
    name = "UNKNOWN_STATUS"


class BadId(UsageError):
    name = "BAD_ID"


class BadDataid(UsageError):
    name = "BAD_DATAID"


class BadTime(UsageError):
    name = "BAD_TIME"


class BadDefinition(UsageError):
    name = "BAD_DEFINITION"


class BadMapping(BadDefinition):
    name = "BAD_MAPPING"


class TwoProducers(BadDefinition):
    name = "TWO_PRODUCERS"


class Cycle(BadDefinition):
    name = "CYCLE"


class BadConfig(UsageError):
    name = "BAD_CONFIG"


class BadJob(UsageError):
    name = "BAD_JOB"


class BadTransition(UsageError):
    name = "BAD_TRANSITION"


class StoreMissing(UsageError):
    name = "STORE_MISSING"


class StoreTaken(UsageError):
    name = "STORE_TAKEN"


class StoreReadOnly(UsageError):
    name = "STORE_READ_ONLY"


class SchemaOlder(UsageError):
    name = "SCHEMA_OLDER"


class SchemaNewer(UsageError):
    name = "SCHEMA_NEWER"


class SchemaChanged(UsageError):
    name = "SCHEMA_CHANGED"


class MissingDependency(UsageError):
    name = "MISSING_DEPENDENCY"


class NotLoggedIn(UsageError):
    name = "NOT_LOGGED_IN"


class Forbidden(UsageError):
    name = "FORBIDDEN"


class NoSuchPage(UsageError):
    name = "NO_SUCH_PAGE"


class TooLarge(UsageError):
    name = "TOO_LARGE"


def install_command(extra: str) -> str:
    """The pip command that installs the requirements of an extra, wherever this package was installed from."""
    import re
    from importlib.metadata import requires

    marker = re.compile(rf"(.+?)\s*;.*extra == ['\"]{extra}['\"]")
    found = (marker.match(line) for line in requires("opendataflow") or [])
    return "pip install " + " ".join(f"'{match[1]}'" for match in found if match)
