"""The door: which verb lives where, and how an error reaches a person."""

from __future__ import annotations

import errno
import json
import os
import sys

from ..errors import Aborted, BadConfig, Internal, NoSpace, OdfError, UsageError
from ..secrets import Hidden, take
from ..tokens import without_secrets
from .plain import run_plainly

# verb → (module, short help). A module is imported when its verb is called: a cold RunJob must stay quick.
VERBS: dict[str, tuple[str, str]] = {
    "init": ("setup", "Create a small project that runs right away."),
    "apply": ("setup", "Bring the store in line with dataflow.toml; shows the difference first."),
    "migrate": ("setup", "Create the store's tables, or bring them up to date."),
    "doctor": ("setup", "Check Python, Java, Spark, store, key, roots and clock, and say how to fix each."),
    "backup": ("transfer", "Copy the store into a file, while workers work."),
    "export": ("transfer", "Write everything that the store holds into a file."),
    "import": ("transfer", "Fill a new store from such a file, or from the Java original."),
    "chaos": ("chaos", "Break it on purpose, on a scratch of your own store and disk, and see what becomes of it."),
    "demo": ("demo", "Watch a real pipeline break in three ways and recover."),
    "run": ("run", "Run one chunk of a job or script, if the five questions allow it (RunJob)."),
    "drain": ("drain", "Run chunk after chunk, several at once, until nothing is left."),
    "start": ("run", "Claim a chunk for a script that does the handshake itself."),
    "end": ("run", "End a run that odf start began: READY, FAILED, RESUBMIT or HOLD."),
    "check-lease": ("lease", "Say whether a run still holds its chunk: exit 0, or 16."),
    "rescue": ("run", "End runs whose lease ran out."),
    "status": ("status", "The matrix of datasets and dataids."),
    "runs": ("runs", "Recent attempts, newest first."),
    "jobs": ("definitions", "The registered jobs."),
    "datasets": ("definitions", "The registered datasets."),
    "log": ("runs", "What a run printed."),
    "why": ("decisions", "What stands in the way of a job, and which command would help."),
    "explain": ("decisions", "The five questions about one chunk, now and at each past run."),
    "report": ("report", "What a period brought: a page, JSON or text."),
    "timeline": ("timeline", "The runs of a period by worker, pool or job, and what they waited for."),
    "late": ("late", "What should be READY by now and is not, and what holds it up."),
    "notify": ("notify", "Tell people what went wrong; try it out; list what was told."),
    "lineage": ("lineage", "Where a chunk or a dataset comes from, and where it goes."),
    "history": ("history", "What happened, newest first: when, to what, by whom and why."),
    "diff": ("diff", "How one version of a chunk differs from another."),
    "check": ("oncall", "One line and an exit code for monitoring."),
    "serve": ("serve", "The console: status, reasons and buttons, in a browser."),
    "metrics": ("metrics", "Figures for Prometheus, once or served at /metrics."),
    "where": ("oncall", "Where a published chunk lies."),
    "head": ("oncall", "The first rows of a published chunk, without Spark."),
    "schema": ("oncall", "Which columns a dataset must have; accept new ones."),
    "impact": ("impact", "What was really made from a chunk, and what of it is stale."),
    "prove": ("shard", "Show that the published chunks cover the source exactly once, or what is missing."),
    "audit": ("audit", "Read published files again, and name each one that differs."),
    "ready": ("arrive", "Announce chunks that something outside produced."),
    "discover": ("arrive", "Find chunks that arrived at a dataset's location, and announce them."),
    "shard": ("shard", "Cut a table or file set into key ranges, evenly by its data."),
    "recover": ("recover", "What an outage left, by cause, and the fewest RESUBMITs that heal it."),
    "resubmit": ("steer", "Have chunks produced again, before anything new."),
    "hold": ("steer", "Set chunks aside: no job reads or produces them."),
    "release": ("steer", "Release held chunks: each gets back the status it had."),
    "fail": ("steer", "Mark chunks as bad until they are produced again."),
    "forget": ("steer", "Reset chunks to never produced; their history stays."),
    "recall": ("impact", "Call published data back: no job reads it again."),
    "cancel": ("oncall", "End a run, on whichever machine it is."),
    "pause": ("oncall", "Start nothing more of a job until it is resumed."),
    "resume": ("oncall", "Let a paused job go on."),
    "rollback": ("versions", "Go back to an older version of a chunk."),
    "vacuum": ("versions", "Remove what no version points to, and old versions."),
    "pool": ("pool", "Limits on running chunks across all machines."),
    "crypt": ("secret", "Encrypt, decrypt and rekey passwords."),
    "sql": ("raw", "Query the store with SQL."),
    "dml": ("raw", "Change the store with SQL; the next claim acts on it."),
}
# The names that the Java original uses: (module, function).
ALIASES: dict[str, tuple[str, str]] = {
    "createtables": ("setup", "migrate"),
    "startjob": ("aliases", "startjob"),
    "endjob": ("aliases", "endjob"),
    "deleterun": ("aliases", "deleterun"),
    "getjob": ("aliases", "getjob"),
    "forcejob": ("aliases", "forcejob"),
    "forcejobts": ("aliases", "forcejob"),
    "ddl": ("raw", "dml"),
    "CreateTables": ("setup", "migrate"),
    "LaunchJob": ("aliases", "startjob"),
    "SetJobEndStatus": ("aliases", "endjob"),
    "DeleteRun": ("aliases", "deleterun"),
    "GetJobs": ("definitions", "jobs"),
    "GetDataSets": ("definitions", "datasets"),
    "GetJobRuns": ("runs", "runs"),
    "ForceJob": ("aliases", "force"),
    "ForceCmd": ("aliases", "force"),
    "GetJobData": ("aliases", "getjob"),
    "SetDataStatus": ("aliases", "setdatastatus"),
    "Cryptor": ("aliases", "cryptor"),
    "RunSql": ("raw", "sql"),
    "RunUpdate": ("raw", "dml"),
}

_READER_GONE = 141  # as a shell reports a program that SIGPIPE ended: no reader of an error is left


def open_door(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    _have_streams()
    taken = take(os.environ)  # before anything else starts
    for word in arguments:
        if "://" in word or word.startswith(("jdbc:", "--store=")):
            taken.hidden.add_address(word)
    try:
        code = run_plainly(arguments, taken)
        if code is None:
            from .group import call

            code = call(arguments, taken)
        return code
    except BrokenPipeError:
        sys.stderr.close()
        return _READER_GONE
    except (Exception, KeyboardInterrupt) as error:
        return _say(arguments, _named(error), error, taken.hidden)


def _have_streams() -> None:
    """Open the standard streams that our parent closed: else the next file that is opened, the store perhaps, takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest that is free: its own
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False))


def _named(error: BaseException) -> OdfError:
    """What went wrong, as one of our own errors."""
    if "click" in sys.modules:
        from .group import named

        error = named(error)
    from ..model.definitions.ids import shown

    match error:
        case OdfError():
            return error
        case KeyboardInterrupt():
            return Aborted("interrupted")
        case UnicodeEncodeError(object=str()) if any("\ud800" <= each <= "\udfff" for each in error.object):
            return UsageError("the command line holds text that is not UTF-8", hint="Type it as UTF-8.")
        case OSError(errno=number) if number in (errno.ENOSPC, errno.EDQUOT):
            return NoSpace(f"{error.filename or 'a file'}: {error.strerror}", hint="Free some space, then do it again.")
        case OSError(errno=int(), filename=str() | bytes()):
            return BadConfig(
                f"{shown(error.filename, 300)}: {error.strerror}", hint="Check the path and its permissions."
            )
    return Internal(f"{type(error).__name__}: {error}", hint="This is a bug in OpenDataFlow; --debug shows where.")


def _say(arguments: list[str], problem: OdfError, raised: BaseException, hidden: Hidden) -> int:
    from ..model.printable import clean

    if "--" in arguments:
        arguments = arguments[: arguments.index("--")]  # what follows is for the command
    if "--debug" in arguments and (isinstance(problem, Internal) or problem is raised):
        import traceback

        print(
            clean(without_secrets(hidden.redact("".join(traceback.format_exception(raised))))), end="", file=sys.stderr
        )
    message, hint = (without_secrets(hidden.redact(text)) for text in (problem.message, problem.hint))
    if "--json" in arguments:
        facts = {"error": problem.name, "message": message, "hint": hint}
        print(json.dumps(facts | {"exit_code": problem.exit_code}))
    else:
        print(clean(f"{problem.name}: {message}"), file=sys.stderr)
        if hint:
            print(clean(f"  {hint}"), file=sys.stderr)
    return problem.exit_code
