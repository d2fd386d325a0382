"""[spark] of a project file: the settings of a session, spelled as Spark spells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..errors import BadConfig
from ..model.definitions.ids import shown
from ..tokens import SECRET_NAMES

DEFAULT_MASTER = "local[*]"

# Short names for what is set most; every other key is Spark's own, with or without "spark." in front.
SHORT = {
    "master": "spark.master",
    "remote": "spark.remote",
    "packages": "spark.jars.packages",
    "jars": "spark.jars",
    "repositories": "spark.jars.repositories",
    "ui": "spark.ui.enabled",
    "log_level": "spark.log.level",
    "memory": "spark.driver.memory",
}

DEFAULTS = {
    "spark.log.level": "FATAL",  # an error of Java is told by whom it hits: in one line, and all of it in that run's log
    "spark.redaction.regex": rf"{SECRET_NAMES}|://[^@/:\s]*:[^@/\s]+@|https?://[^@/:?#\s]+@",  # of names and of values
    "spark.scheduler.mode": "FAIR",  # chunks that run side by side share the cores instead of queueing
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # With a limit in bytes Spark measures a batch anew after every row, which takes as long as all the rest; a limit
    # in rows that is low enough keeps batches of wide rows small as well.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.sql.session.timeZone": "UTC",  # the bounds of a dataid mean the same on every machine
    # Many chunks are read together: below this many locations Spark lists them itself instead of by a job of its own.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "256",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # One application runs thousands of chunks: what it remembers of the old ones must not grow.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "50",
}
# A local session talks to itself only, and must not depend on how the machine's name resolves. Other users of the machine
# reach its ports all the same: who has not its secret, which Spark makes up for each application, is not listened to.
LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.authenticate": "true",
}


def spark_settings(settings: Mapping[str, object], master: str | None = None) -> dict[str, str]:
    """Everything a session is started with: our defaults, then [spark], then the master that was asked for."""
    given = dict(_flat(settings))
    address = master or given.pop("spark.remote", "") or given.get("spark.master", DEFAULT_MASTER)
    given.pop("spark.master", None)
    if address.startswith("sc://"):
        # What the server was started with is its own business: only what a session may change is sent.
        sent = {key: value for key, value in given.items() if key.startswith("spark.sql.")}
        return {"spark.sql.session.timeZone": "UTC", **sent, "spark.remote": address}
    local = LOCAL if address.startswith("local") else {}
    return {**DEFAULTS, **local, **given, "spark.master": address}


def needs_secret(options: Mapping[str, str]) -> bool:
    """Whether Spark wants to be given the secret of an application: on one machine, only where executors are processes."""
    return (
        options["spark.master"].startswith("local-cluster")
        and options.get("spark.authenticate") == "true"
        and "spark.authenticate.secret" not in options
    )


def environment_of(options: Mapping[str, str]) -> dict[str, str]:
    """Variables that Java is started with: the page of a local session (ui) has no other setting for where it listens."""
    return {"SPARK_LOCAL_IP": "127.0.0.1"} if options["spark.master"].startswith("local") else {}


def without_parameters(address: str) -> str:
    """The address of a Connect server as messages show it: what comes after ; may be a token."""
    return address.partition(";")[0].rstrip("/")


def _flat(settings: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        if key == "conf" and isinstance(value, Mapping):
            yield from _leaves("", value)
        elif key in SHORT:
            yield SHORT[key], _text(key, value)
        elif isinstance(value, Mapping):
            yield from _leaves(_full(key), value)
        elif "." in key:
            yield _full(key), _text(key, value)
        else:
            raise BadConfig(
                f"[spark] {shown(key)}: there is no such setting",
                hint=f"The short names are {', '.join(SHORT)}. Write all others as Spark does: "
                '"spark.sql.shuffle.partitions" = 8',
            )


def _leaves(prefix: str, table: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """TOML makes tables of dotted keys: spark.sql.x = 1 comes as three of them."""
    for key, value in table.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, Mapping):
            yield from _leaves(name, value)
        else:
            yield name, _text(name, value)


def _full(key: str) -> str:
    return key if key == "spark" or key.startswith("spark.") else f"spark.{key}"


def _text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(map(str, value))
    if isinstance(value, (str, int, float)):
        return str(value)
    raise BadConfig(f"[spark] {key}: expected text, a number, true, false or a list, not {shown(value)}")
