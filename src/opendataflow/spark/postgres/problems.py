"""Problems: what PostgreSQL or the driver says, as one of our named errors, without a password in it."""

from __future__ import annotations

import json
import re

from ...errors import BY_NAME, BadConfig, BadDefinition, InvalidPath, JobFailed, NoSpace, NotValidated, OdfError

AS_TEXT = 'Spark has no value for it. Declare on the dataset that the column is read as text: as_text = ["…"]'

_CREATE = "Create the table, or correct the schemaname or tablename of the dataset."
_MARK = "odf-error:"
_DETAILS = (b"PG_DIAG_MESSAGE_PRIMARY", b"PG_DIAG_MESSAGE_DETAIL", b"PG_DIAG_CONTEXT")
_marked = re.compile(re.escape(_MARK) + r"(\{.*?\}):odf")
_login = re.compile(r"password|authentication|role .* does not exist|pg_hba|no password supplied|scram", re.IGNORECASE)
_missing_database = re.compile(r"database .* does not exist", re.IGNORECASE)
_busy = re.compile(r"too many (clients|connections)|starting up|shutting down|in recovery", re.IGNORECASE)


class DatabaseGone(JobFailed):
    """The connection broke: what was under way may or may not have happened."""


def connect_error(problem: Exception, location: str) -> OdfError:
    """Why there is no connection."""
    text = _one_line(str(problem)).removeprefix("IO: [libpq] Failed to connect: ")
    if _busy.search(text):
        return JobFailed(
            f"{location} accepts no connections at the moment: {text}", hint="Try again when it is less busy."
        )
    if _missing_database.search(text):
        return InvalidPath(f"{location}: {text}", hint="Create the database, or correct its name in the dataset.")
    if "authentication method requirement" in text:
        return BadConfig(
            f"{location} asks for the password in a way in which it is not sent: {text}",
            hint='Let it ask for scram-sha-256. Else declare in the project file how it may ask: require_auth = "md5"',
        )
    if _login.search(text):
        return BadConfig(
            f"{location} refuses the login: {text}", hint="Correct the username or the encryptedpass of the dataset."
        )
    return InvalidPath(
        f"{location} cannot be reached: {text}",
        hint="Check that the server is up, and that the hostname and port of the dataset are right.",
    )


def statement_error(problem: Exception, location: str) -> OdfError:
    """Why a statement failed."""
    state = getattr(problem, "sqlstate", None) or ""
    text = _primary(problem)
    said = f"{location}: {text}"
    match state[:2], state:
        case _, "42P01" | "3F000":
            is_own = location.rpartition("/")[2] in text.replace('"', "")  # a view may miss another table
            return no_table(location) if is_own else InvalidPath(said, hint=_CREATE)
        case _, "42703":
            return BadDefinition(said, hint="Correct the name of the column in the dataset or in its partition.")
        case _, "42501" | "25006":
            return InvalidPath(said, hint="Grant the role SELECT on the table, and to load also CREATE on the schema.")
        case "42", _:
            return BadDefinition(said, hint="The dataset does not fit its table.")
        case "22" | "23", _:
            return NotValidated(said, hint="The rows do not fit the table; nothing was published.")
        case _, "53100":
            return NoSpace(said, hint="Free some space on the server; nothing was published.")
        case "08" | "57" | "", _:
            return DatabaseGone(f"the connection broke: {said}", hint="Nothing was published by halves. Run it again.")
    return JobFailed(said)


def no_table(location: str) -> InvalidPath:
    """A table is not there, or not any more: in the same words whenever that is noticed."""
    return InvalidPath(f"there is no table at {location}", hint=_CREATE)


def stream_error(problem: OSError, location: str) -> OdfError:
    """Why rows stopped arriving."""
    text = _one_line(str(problem))
    _, error, said = text.partition("ERROR: ")
    if "malformed array literal" in said:
        return NotValidated(f"{location}: {said.strip()}", hint=AS_TEXT)
    if error and "administrator command" not in said:
        return JobFailed(f"{location}: {said.strip()}")
    return DatabaseGone(f"the connection broke: {location}: {text}", hint="Run it again.")


def value_error(problem: Exception, column: str) -> OdfError:
    """Why a column's values cannot be converted without losing something."""
    return NotValidated(f"column {column}: {_one_line(str(problem))}", hint="Cast or round it in the job.")


def as_text(problem: OdfError) -> str:
    """The error as text that survives the way from a task through Spark to the driver."""
    return _MARK + json.dumps({"name": problem.name, "message": problem.message, "hint": problem.hint}) + ":odf"


class TaskFailed(Exception):
    """An error in a task, as Spark shows it and `named_error` finds it."""


def named_error(problem: BaseException | str) -> OdfError | None:
    """Our error inside what Spark raised; None when something else went wrong."""
    match = _marked.search(str(problem))
    if match is None:
        return None
    try:
        data = json.loads(match[1])
    except ValueError:
        return None
    return BY_NAME.get(data["name"], JobFailed)(data["message"], hint=data["hint"])


def without_marks(text: str) -> str:
    """The text with our errors in it as people read them: INVALID_PATH: there is no table."""
    return _marked.sub(lambda match: _readable(match[0]), text)


def _readable(marked: str) -> str:
    known = named_error(marked)
    return f"{known.name}: {known.message}" if known is not None else marked


def _primary(problem: Exception) -> str:
    details = dict(getattr(problem, "details", None) or ())
    said = [details.get(key, b"").decode("utf-8", "replace") for key in _DETAILS]
    return _one_line(": ".join(filter(None, said)) or str(problem))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]
