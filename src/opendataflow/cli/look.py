"""Verbs that look: status, runs, jobs, datasets, log, why, explain. They change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ..model import Answer, check_id
from .common import App, Line, clean, one_line, table, verb, when

if TYPE_CHECKING:
    from ..insight.explain import Decision, Explanation
    from ..insight.why import Why
    from ..model import Dataset, Job
    from ..store import Run


@verb("status")
@click.option("--from", "since", metavar="DATAID", help="From this dataid or period on: 2013, 2013-01, 2013-01-05, 7.")
@click.option("--to", "until", metavar="DATAID", help="Up to and with this dataid or period.")
@click.option("--status", metavar="STATUS", help="Only datasets with chunks of this status.")
@click.option("--chunks", is_flag=True, help="A line for each chunk instead of the matrix.")
@click.option("--exact", is_flag=True, help="Count every chunk, however many there are.")
@click.option(
    "-n", "most", type=click.IntRange(1), default=1000, show_default=True, help="At most so many lines with --chunks."
)
@click.argument("datasets", metavar="[DATASET]…", nargs=-1)
def status_verb(
    app: App,
    datasets: tuple[str, ...],
    since: str | None,
    until: str | None,
    status: str | None,
    chunks: bool,
    exact: bool,
    most: int,
) -> int:
    """The matrix of datasets and dataids, along the flow.

    Where the dataids do not fit, a cell stands for a month, a year or a thousand numbers, and shows the worst that is
    in it. A look costs the same at a thousand chunks and at a million.

    \b
      odf status
      odf status flights_clean --from 2013-01 --to 2013-03
      odf status --status FAILED
      odf status flights_raw --chunks --status FAILED
    """
    names = [check_id("dataset", name) for name in datasets]
    if chunks:
        from ..insight.matrix import chunk_list

        found = chunk_list(app.store, names, since=since, until=until, status=status, n=most)
        rows = [
            (
                each.datasetid,
                each.dataid,
                each.status,
                when(each.modified),
                each.version or "",
                each.runid,
                each.tries or "",
            )
            for each in found
        ]
        more = (
            [f"these are the first {most:,}; more with -n, or from here on: --from {found[-1].dataid}"]
            if len(found) == most
            else []
        )
        app.show(
            found,
            lambda: (
                [*table(["dataset", "dataid", "status", "since", "version", "run", "tries"], rows), *more]
                if rows
                else ["no chunks"]
            ),
        )
        return 0
    from ..insight.matrix import overview
    from .matrix import lines, terminal_width

    width = terminal_width()
    result = overview(app.store, names, since=since, until=until, status=status, width=width, exact=exact)
    app.show(result, lambda: lines(result, width))
    return 0


@verb("runs")
@click.option("--failed", is_flag=True, help="Only attempts that did not end well.")
@click.option("-n", "most", type=click.IntRange(1), default=20, show_default=True, help="At most so many.")
@click.option("--before", type=int, metavar="RUN", help="Older than this run: the next page.")
@click.argument("job", required=False)
def runs_verb(app: App, job: str | None, failed: bool, most: int, before: int | None) -> int:
    """Recent attempts, newest first.

    \b
      odf runs
      odf runs clean_flights --failed
      odf runs -n 100 --before 4711
    """
    jobid = app.store.catalogue().job(check_id("job", job)).jobid if job else None
    store = app.store
    found = (
        store.failed_runs(jobid=jobid, before=before, n=most)
        if failed
        else store.runs(jobid=jobid, before=before, n=most)
    )
    rows = [
        (
            run.runid,
            run.jobid,
            run.dataid,
            run.epoch,
            _ended(run),
            when(run.started),
            _took(run),
            run.exit_code,
            (run.detail or "")[:60],
        )
        for run in found
    ]
    lines: list[Line] = (
        [*table(["run", "job", "dataid", "epoch", "outcome", "started", "took", "exit", "detail"], rows)]
        if rows
        else ["no runs"]
    )
    if len(found) == most:
        lines.append(
            [
                ("older: ", "faint"),
                (
                    " ".join(
                        filter(None, ["odf runs", job, "--failed" if failed else "", f"--before {found[-1].runid}"])
                    ),
                    "command",
                ),
            ]
        )
    app.show(found, lambda: lines)
    return 0


def _ended(run: Run) -> str:
    return run.outcome or run.status


def _took(run: Run) -> str:
    if run.started is None or run.ended is None:
        return ""
    seconds = (run.ended - run.started).total_seconds()
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


@verb("jobs")
@click.argument("job", required=False)
def jobs_verb(app: App, job: str | None) -> int:
    """The registered jobs in the order of the flow, or one of them in full.

    \b
      odf jobs
      odf jobs clean_flights
    """
    catalogue = app.store.catalogue()
    if job is None:
        found = [catalogue.jobs[jobid] for jobid in catalogue.order()]
        rows = [
            (each.jobid, _reads(each), ", ".join(each.outputs), each.pool, each.retry.retries or "") for each in found
        ]
        app.show(
            [_job_data(each) for each in found],
            lambda: (
                table(["job", "reads", "writes", "pool", "retries"], rows)
                if rows
                else ["no jobs; declare them in dataflow.toml and: odf apply"]
            ),
        )
        return 0
    one = catalogue.job(check_id("job", job))
    facts: list[tuple[str, object]] = [
        ("job", one.jobid),
        ("reads", _reads(one)),
        ("writes", ", ".join(one.outputs)),
        ("partition", catalogue.output_partition(one).type),
    ]
    facts += [(f"env {name}", value) for name, value in one.env.items()]
    facts += [
        ("lease", f"{one.lease:g} s"),
        ("timeout", f"{one.timeout:g} s" if one.timeout else "none"),
        ("pool", one.pool or "none"),
    ]
    facts += [("retries", f"{one.retry.retries}, after {one.retry.backoff:g} s" if one.retry.retries else "none")]
    facts += [(name, value) for name, value in one.options.items()]
    app.show(_job_data(one), lambda: _facts(facts))
    return 0


def _reads(job: Job) -> str:
    return ", ".join(
        item.datasetid + (f" ({item.mapping})" if item.mapping.kind != "identity" else "") for item in job.inputs
    )


def _job_data(job: Job) -> dict[str, Any]:
    from ..store.definitions import job_data

    return {"jobid": job.jobid, **job_data(job)}


def _facts(facts: list[tuple[str, object]]) -> list[str]:
    width = max(len(name) for name, _ in facts)
    return [f"{name.ljust(width)}  {one_line(value)}" for name, value in facts if value not in ("", None)]


@verb("datasets")
@click.argument("dataset", required=False)
def datasets_verb(app: App, dataset: str | None) -> int:
    """The registered datasets in the order of the flow, or one of them in full. Passwords are never shown.

    \b
      odf datasets
      odf datasets flights_raw
    """
    from ..insight.flow import datasets_in_order

    catalogue = app.store.catalogue()
    if dataset is None:
        found = [catalogue.datasets[name] for name in datasets_in_order(catalogue)]
        producers = {name: job.jobid for name, job in catalogue.producers.items()}
        rows = [
            (
                each.datasetid,
                each.kind or "tracked",
                each.format,
                _partition(each),
                _where(each),
                producers.get(each.datasetid, ""),
            )
            for each in found
        ]
        app.show(
            [_dataset_data(each) for each in found],
            lambda: (
                table(["dataset", "kind", "format", "partition", "location", "produced by"], rows)
                if rows
                else ["no datasets"]
            ),
        )
        return 0
    one = catalogue.dataset(check_id("dataset", dataset))
    data = _dataset_data(one)
    producer = catalogue.producer(one.datasetid)
    facts: list[tuple[str, object]] = [(name, _shown(value)) for name, value in data.items()]
    facts += [
        ("produced by", producer.jobid if producer else "outside"),
        ("read by", ", ".join(job.jobid for job, _ in catalogue.consumers(one.datasetid))),
    ]
    app.show(data, lambda: _facts(facts))
    return 0


def _partition(dataset: Dataset) -> str:
    partition = dataset.partition
    return (
        partition.type
        + (f" of {partition.count:,}" if partition.count else "")
        + (f" by {partition.column}" if partition.column else "")
    )


def _where(dataset: Dataset) -> str:
    table_name = ".".join(filter(None, (dataset.database, dataset.schemaname, dataset.tablename)))
    return dataset.location or (f"{dataset.hostname}/{table_name}" if dataset.hostname else table_name)


def _dataset_data(dataset: Dataset) -> dict[str, Any]:
    from ..store.definitions import dataset_data

    return dataset_data(dataset) | {"encryptedpass": "(encrypted)" if dataset.encryptedpass else ""}


def _shown(value: object) -> object:
    if isinstance(value, dict):
        import json

        return ", ".join(
            f"{name} = {each if isinstance(each, str) else json.dumps(each)}" for name, each in value.items()
        )
    return value


@verb("log")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run is over.")
@click.argument("run", type=int)
def log_verb(app: App, run: int, follow: bool) -> int:
    """What a run printed. Secrets were taken out when it was written.

    \b
      odf log 17
      odf log 17 --follow
    """
    from ..errors import UnknownRun
    from ..run.process import logs

    found = app.store.run(run)
    if not found.log:
        raise UnknownRun(
            f"run {run} of {found.jobid} {found.dataid} has no log",
            hint=f"it ended {_ended(found)}" + (f": {found.detail}" if found.detail else ""),
        )
    pieces = logs.follow(found.log, lambda: app.store.run(run).status != "RUNNING") if follow else logs.read(found.log)
    if app.as_json:
        app.show({"run": run, "path": found.log, "text": "".join(pieces)})
        return 0
    for piece in pieces:
        click.echo(clean(piece), nl=False)
    return 0


@verb("why")
@click.argument("job")
@click.argument("dataid", required=False)
def why_verb(app: App, job: str, dataid: str | None) -> int:
    """What stands in the way of a job, or of one chunk of it, and which command would help.

    \b
      odf why clean_flights
      odf why clean_flights 2013-01-05
    """
    from ..insight.why import why

    if dataid is not None:
        check_id("dataid", dataid)
    answer = why(app.store, check_id("job", job), dataid)
    app.show(answer, lambda: _why_lines(answer))
    return 0


def _why_lines(answer: Why) -> Iterator[Line]:
    for reason in answer.reasons:
        style = "yes" if reason.name in ("YES", "DONE", "RUNNING") else "no"
        yield [(f"{reason.name}: ", style), (one_line(reason.text), "")]
        for each in reason.because:
            yield [(f"    {one_line(each)}", "faint")]
        for command in reason.commands:
            yield [("  → ", "faint"), (one_line(command), "command")]


@verb("explain")
@click.option("--receipt", is_flag=True, help="Only the five answers of the last decision, with their evidence.")
@click.argument("dataset")
@click.argument("dataid")
def explain_verb(app: App, dataset: str, dataid: str, receipt: bool) -> int:
    """The five questions about one chunk, now and at each past run: where it is, what it was made from, who read it.

    \b
      odf explain flights_clean 2013-01-05
      odf explain --receipt flights_clean 2013-01-05
    """
    from ..insight.explain import explain

    found = explain(app.store, check_id("dataset", dataset), check_id("dataid", dataid))
    if receipt:
        app.show(found.decisions[-1] if found.decisions else None, lambda: _last_receipt(found))
    else:
        app.show(found, lambda: _explanation(found))
    return 0


def _last_receipt(found: Explanation) -> Iterator[Line]:
    yield _headline(found)
    if not found.decisions:
        yield "nobody asked the five questions about it yet"
        return
    decision = found.decisions[-1]
    yield _asked(decision)
    for answer in decision.receipt.answers:
        yield _answer(Answer(answer.question, answer.yes, {}, answer.why))
        for name, value in answer.evidence.items():
            if value is not None:
                yield [(f"            {one_line(name)}: {_said(value)}", "faint")]


def _headline(found: Explanation) -> Line:
    since = f" since {when(found.chunk.modified)}" if found.chunk and found.chunk.modified else ""
    version = f", version {found.chunk.version}" if found.chunk and found.chunk.version else ""
    return [
        (f"{found.datasetid} {found.dataid}", "strong"),
        (" is ", ""),
        (found.status or "not there", found.status or "faint"),
        (f"{since}{version}: {found.meaning}", ""),
    ]


def _asked(decision: Decision) -> Line:
    run = f" of run {decision.runid}" if decision.runid else ""
    return [
        (f"The five questions{run}", "strong"),
        (f" at {when(decision.at)}: ", ""),
        (decision.verdict, "yes" if decision.verdict == "YES" else "no"),
        (f" ({decision.kind})", "faint"),
    ]


def _said(value: object) -> str:
    """A piece of evidence in words: 3; flights 2013-01-05 READY; version 1, files 1."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_said(each)}" for name, each in value.items() if each is not None)
    if isinstance(value, (list, tuple)):
        is_deep = any(isinstance(each, (list, tuple, dict)) for each in value)
        return ("; " if is_deep else " ").join(map(_said, value))
    return one_line(value)


def _explanation(found: Explanation) -> Iterator[Line]:
    yield _headline(found)
    yield f"produced by {found.producer}" if found.producer else "produced outside"
    yield ""
    yield [("The five questions now", "strong")]
    yield from map(_answer, found.answers)
    yield from _location(found)
    if found.made_from:
        yield from ("", [("Made from", "strong")])
        for each in found.made_from:
            now = (
                f"; version {each.version_now} now"
                if each.is_newer
                else ""
                if each.status == "READY"
                else f"; {each.status or 'not there'} now"
            )
            yield [(f"  {each.datasetid} {each.dataid} version {each.version}", ""), (now, "no")]
    if found.read_by:
        yield from ("", [("Read by", "strong")])
        for reader in found.read_by:
            consumed = f"{reader.status} (version {reader.version})" if reader.status else "not yet"
            makes = ", ".join(f"{name} {each} {status or 'not there'}" for name, each, status in reader.outputs[:5])
            more = f", … {len(reader.outputs) - 5} more" if len(reader.outputs) > 5 else ""
            yield f"  {reader.jobid}: {consumed}" + (f" → {makes}{more}" if makes else "")
    if found.runs:
        yield from ("", [("Attempts", "strong")])
        yield from (
            "  " + line
            for line in table(
                ["run", "epoch", "outcome", "started", "took", "by", "detail"],
                [
                    (
                        run.runid,
                        run.epoch,
                        _ended(run),
                        when(run.started),
                        _took(run),
                        run.owner,
                        (run.detail or "")[:60],
                    )
                    for run in found.runs
                ],
            )
        )
    for decision in found.decisions:
        yield from ("", _asked(decision))
        yield from map(_answer, decision.receipt.answers)
    if found.events:
        yield from ("", [("History" + (", the last of it" if found.more_events else ""), "strong")])
        rows = [
            (
                when(event.at),
                event.kind,
                f"{event.before or '–'} → {event.after or '–'}",
                event.runid,
                event.who,
                event.why,
            )
            for event in found.events
        ]
        yield from ("  " + line for line in table(["when", "what", "change", "run", "who", "why"], rows))


def _answer(answer: Answer) -> Line:
    import json

    from ..insight.explain import question_text

    word = {True: "yes", False: "no", None: "not asked"}[answer.yes]
    evidence = {name: value for name, value in answer.evidence.items() if value is not None}
    shown = json.dumps(evidence, ensure_ascii=False) if evidence else ""
    detail = "; ".join(filter(None, (one_line(answer.why), shown if len(shown) <= 300 else shown[:299] + "…")))
    return [
        (f"  {word:<9} ", word if word in ("yes", "no") else "faint"),
        (question_text(answer.question), ""),
        (f"  {one_line(detail)}" if detail else "", "faint"),
    ]


def _location(found: Explanation) -> Iterator[Line]:
    if found.published is None:
        return
    manifest = found.published.manifest
    facts: list[tuple[str, object]] = [
        ("  location", manifest.location),
        ("  format", manifest.format),
        ("  files", f"{len(manifest.files):,}" if manifest.files else ""),
        ("  bytes", f"{manifest.bytes:,}" if manifest.bytes is not None else ""),
        ("  rows", f"{manifest.rows:,}" if manifest.rows is not None else ""),
        ("  span", f"{manifest.span_lower} to {manifest.span_upper}" if manifest.span_lower is not None else ""),
        ("  schema", manifest.schema),
        ("  fingerprint", manifest.fingerprint or ""),
        (
            "  published",
            f"{when(found.published.published)}"
            + (f" by run {found.published.runid}" if found.published.runid else ""),
        ),
        ("  versions", ", ".join(map(str, found.versions)) if len(found.versions) > 1 else ""),
    ]
    yield from ("", [("What was published", "strong")])
    yield from _facts(facts)
    for result in manifest.checks:
        told = ", ".join(f"{name} = {value}" for name, value in result.figures.items())
        yield [
            (f"  {'passed' if result.passed else 'failed':<8}", "yes" if result.passed else "no"),
            (one_line(f"{result.check}  {told}"), ""),
        ]
