"""Verbs about decisions: why, explain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ..errors import NothingToDo, UnknownJob
from ..model import RUNNING, YES, Answer, check_id
from .app import App, Line, named_facts, one_line, table, up_to_date
from .at import at_option, moment_of, remark_lines
from .common import dataset_named, job_named, verb
from .runs import how_it_went

if TYPE_CHECKING:
    from ..insight.explain import Decision, Explanation, InputUsed, Reader
    from ..insight.why import Why
    from ..insight.why_then import WhyThen
    from ..store import Published, Recalled

_LONGEST = 200  # characters of evidence in one line
_OUTPUTS = 5
_STYLES = {
    YES: "yes",
    RUNNING: "RUNNING",
    NothingToDo.name: "faint",
    "STALE": "STALE",
}  # of the reasons that are no refusal


@verb("why")
@at_option
@click.argument("job", metavar="JOB|DATASET")
@click.argument("dataid", required=False)
def why_verb(app: App, job: str, dataid: str | None, moment: str | None) -> int:
    """What stands in the way of a job, or of one chunk of it, and which command would help.

    About one chunk it gives the answer that RunJob --dataid would give, with every no and not only the first.

    \b
      odf why clean_flights
      odf why clean_flights 2013-01-05
      odf why clean_flights 2013-01-05 --at yesterday
    """
    if dataid is not None:
        check_id("dataid", dataid)
    jobid = job_named(app, job)
    catalogue = app.store.catalogue()
    if jobid not in catalogue.jobs and ("job", jobid) not in catalogue.broken:
        if jobid in catalogue.datasets:
            overview = f"What is there: odf status {jobid}; what is late: odf late {jobid}"
            hint = f"What happened to this chunk: odf explain {jobid} {dataid}" if dataid else overview
            raise UnknownJob(f"{jobid} is a dataset, and no job; no job produces it", hint=hint)
        from .running import refuse_unapplied

        refuse_unapplied(app, jobid)
    at = moment_of(app, moment)
    if at is not None:
        from ..insight.why_then import why_then

        with up_to_date(app):
            then = why_then(app.store, jobid, dataid, at)
        app.show(then, lambda: _why_then_lines(then))
        return 0
    from ..insight.why import why
    from ..run.context import Vault

    with up_to_date(app):
        answer = why(app.store, jobid, dataid, Vault(app.project, app.key, app.taken.hidden))
    app.show(answer, lambda: _why_lines(answer))
    return 0


def _why_lines(answer: Why | WhyThen) -> Iterator[Line]:
    for reason in answer.reasons:
        style = _STYLES.get(reason.name, "no")
        yield [(f"{reason.name}: ", style), (one_line(reason.text), "")]
        for line in reason.because:
            yield [(f"    {one_line(line)}", "faint")]
        for command in reason.commands:
            yield [("  → ", "faint"), (one_line(command), "command")]
    if answer.answers:
        yield ""
        yield from map(_answer, answer.answers)


def _why_then_lines(answer: WhyThen) -> Iterator[Line]:
    from ..insight.words import when

    yield [(f"as it was at {when(answer.at)}", "faint")]
    yield from _why_lines(answer)
    if answer.decision is not None:
        yield from ("", [("The last receipt that was stored by then", "strong")], _asked(answer.decision))
        yield from map(_answer, answer.decision.receipt.answers)
    else:
        yield from ("", "no receipt was stored by then")
    yield from remark_lines(answer.not_known)


@verb("explain")
@at_option
@click.option("--receipt", is_flag=True, help="Only the five answers of the last decision, with their evidence.")
@click.argument("dataset", metavar="DATASET|JOB")
@click.argument("dataid")
def explain_verb(app: App, dataset: str, dataid: str, receipt: bool, moment: str | None) -> int:
    """The five questions about one chunk, now and at each past run: where it is, what it was made from, who read it.

    \b
      odf explain flights_clean 2013-01-05
      odf explain --receipt flights_clean 2013-01-05
      odf explain flights_clean 2013-01-05 --at yesterday
    """
    datasetid = dataset_named(app, dataset)
    check_id("dataid", dataid)
    at = moment_of(app, moment)
    with up_to_date(app):
        if at is None:
            from ..insight.explain import explain

            explanation = explain(app.store.views, datasetid, dataid, app.project)
        else:
            from ..insight.explain_then import explain_then

            explanation = explain_then(app.store, datasetid, dataid, at)
    if receipt:
        last = explanation.decisions[-1] if explanation.decisions else None
        app.show(last, lambda: _last_receipt(explanation, last))
    else:
        app.show(explanation, lambda: _explanation(explanation))
    return 0


def _last_receipt(explanation: Explanation, last: Decision | None) -> Iterator[Line]:
    from ..insight.words import evidence

    yield _headline(explanation)
    if last is None:
        yield "nobody asked the five questions about it yet"
        return
    yield _asked(last)
    for answer in last.receipt.answers:
        yield _answer(Answer(answer.question, answer.yes, {}, answer.why))
        yield from ([(f"             {one_line(phrase)}", "faint")] for phrase in evidence(answer.evidence))


def _explanation(explanation: Explanation) -> Iterator[Line]:
    yield _headline(explanation)
    source = "the calendar" if explanation.by_clock else "something outside"
    yield f"produced by {explanation.producer or source}"
    if explanation.refused and explanation.status:
        yield [("a later delivery was refused: ", "no"), (one_line(explanation.refused), "")]
    if explanation.missed is not None:
        yield [("LATE: ", "LATE"), (_missed(explanation), "")]
    for cause in explanation.stale:
        yield [("STALE: ", "STALE"), (one_line(cause), "")]
    if explanation.stale:
        yield [("  → ", "faint"), (f"odf resubmit --stale {explanation.datasetid} {explanation.dataid}", "command")]
    for recalled in explanation.recalled:
        yield [(f"version {recalled.version} was recalled ", "no"), (one_line(_who_recalled(recalled)), "")]
    yield ""
    reads = "reads it now" if explanation.at is None else "read it then"
    yield [(f"The five questions, for a job that {reads}", "strong")]
    yield from map(_answer, explanation.answers)
    for command in explanation.ways_out:
        yield [("  → ", "faint"), (one_line(command), "command")]
    if explanation.published is not None:
        yield from ("", [("What was published", "strong")])
        yield from _published(explanation.published, explanation.versions)
    if explanation.made_from:
        yield from ("", [("Made from", "strong")])
        yield from map(_source, explanation.made_from)
    if explanation.read_by:
        yield from ("", [("Read by", "strong")])
        yield from map(_reader, explanation.read_by)
    if explanation.runs:
        yield from ("", [("Attempts", "strong")])
        yield from _attempts(explanation)
    for decision in explanation.decisions:
        yield from ("", _asked(decision))
        yield from map(_answer, decision.receipt.answers)
    if explanation.events:
        yield from ("", [("History" + (", the last of it" if explanation.more_events else ""), "strong")])
        yield from _history(explanation)
    if explanation.not_known:
        yield from ("", *remark_lines(explanation.not_known))


def _missed(explanation: Explanation) -> str:
    from ..insight.words import when

    return f"it was due at {when(explanation.missed)}; see: odf late {explanation.datasetid} {explanation.dataid}"


def _who_recalled(recalled: Recalled) -> str:
    from ..insight.words import when

    return f"by {recalled.who} at {when(recalled.at)}: {recalled.why}"


def _headline(explanation: Explanation) -> Line:
    from ..insight.words import when

    chunk = explanation.chunk
    since = f" since {when(chunk.modified)}" if chunk and chunk.modified else ""
    version = f", version {chunk.version}" if chunk and chunk.version else ""
    return [
        (f"{explanation.datasetid} {explanation.dataid}", "strong"),
        (" is " if explanation.at is None else f" was at {when(explanation.at)} ", ""),
        (explanation.status or "not there", explanation.status or "faint"),
        (", STALE" if explanation.stale else "", "STALE"),
        (f"{since}{version}: {explanation.meaning}", ""),
    ]


def _asked(decision: Decision) -> Line:
    from ..insight.words import when

    run = f" of run {decision.runid}" if decision.runid else ""
    return [
        (f"The five questions{run}", "strong"),
        (f" at {when(decision.at)}: ", ""),
        (decision.verdict, "yes" if decision.verdict == YES else "no"),
        (f" ({decision.kind})", "faint"),
    ]


def _answer(answer: Answer) -> Line:
    """One answer in a line: yes, no or not asked, the question, and what the answer rests on."""
    from ..insight.words import evidence, question_text

    phrases = [] if answer.yes is False and answer.why else evidence(answer.evidence)  # a no says it all
    detail = one_line("; ".join(filter(None, (answer.why, *phrases))))
    if len(detail) > _LONGEST:
        detail = detail[: _LONGEST - 1] + "…"
    return [
        (f"  {answer.word:<9}  ", "faint" if answer.yes is None else answer.word),
        (question_text(answer.question), ""),
        (f"  {detail}" if detail else "", "faint"),
    ]


def _published(published: Published, versions: tuple[int, ...]) -> Iterator[Line]:
    from ..insight.words import when

    manifest = published.manifest
    facts: list[tuple[str, object]] = [
        ("  location", manifest.location),
        ("  format", manifest.format),
        ("  files", f"{len(manifest.files):,}" if manifest.files else ""),
        ("  bytes", f"{manifest.bytes:,}" if manifest.bytes is not None else ""),
        ("  rows", f"{manifest.rows:,}" if manifest.rows is not None else ""),
        ("  rejected", _rejected(published)),
        ("  span", f"{manifest.span_lower} to {manifest.span_upper}" if manifest.span_lower is not None else ""),
        ("  schema", manifest.schema),
        ("  fingerprint", manifest.fingerprint or ""),
        ("  published", when(published.published) + (f" by run {published.runid}" if published.runid else "")),
        ("  versions", ", ".join(map(str, versions)) if len(versions) > 1 else ""),
    ]
    yield from named_facts(facts)
    for result in manifest.checks:
        figures = ", ".join(f"{name} = {value}" for name, value in result.figures.items())
        word, style = ("passed", "yes") if result.passed else ("failed" if result.refuses else "warned", "no")
        yield [
            (f"  {word:<8}", style),
            (one_line(f"{result.check}  {figures}"), ""),
        ]


def _rejected(published: Published) -> str:
    """How many rows were kept aside, and where; or of what these are the rows that were."""
    from ..files.quarantine import rejected_id
    from ..insight.words import count

    extra = published.manifest.extra
    if source := extra.get("rejected_from"):
        return f"these are the rows of {source} {published.dataid} that run {published.runid} of {published.jobid} rejected"
    rows = extra.get("rejected")
    aside = f"{rejected_id(published.datasetid)} {published.dataid}"
    return f"{count(rows, 'row')}, kept in {aside}" if isinstance(rows, int) and rows else ""


def _source(source: InputUsed) -> Line:
    now = ""
    if source.is_newer:
        now = f"; version {source.version_now} now"
    elif source.status != "READY":
        now = f"; {source.status or 'not there'} now"
    return [(f"  {source.datasetid} {source.dataid} version {source.version}", ""), (now, "no")]


def _reader(reader: Reader) -> Line:
    consumed = f"{reader.status} (version {reader.version})" if reader.status else "not yet"
    made = [
        f"{output.datasetid} {output.dataid} {output.status or 'not there'}" for output in reader.outputs[:_OUTPUTS]
    ]
    if len(reader.outputs) > _OUTPUTS:
        made.append(f"… {len(reader.outputs) - _OUTPUTS} more")
    return f"  {reader.jobid}: {consumed}" + (f" → {', '.join(made)}" if made else "")


def _attempts(explanation: Explanation) -> Iterator[Line]:
    rows = []
    for run in explanation.runs:
        ended, started, took, detail = how_it_went(run)
        rows.append((run.runid, run.epoch, ended, started, took, run.owner, detail))
    header = ["run", "epoch", "outcome", "started", "took", "by", "detail"]
    return (f"  {line}" for line in table(header, rows))


def _history(explanation: Explanation) -> Iterator[Line]:
    from ..insight.words import when

    rows = [
        (
            when(event.at, ""),
            event.kind,
            f"{event.before or '–'} → {event.after or '–'}",
            event.runid,
            event.who,
            event.why,
        )
        for event in explanation.events
    ]
    return (f"  {line}" for line in table(["when", "what", "change", "run", "who", "why"], rows))
