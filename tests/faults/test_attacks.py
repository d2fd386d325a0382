"""Rows 17, 19, 20, 21 and 35: what is declared, typed or named to do harm is refused by name, and nothing is launched or written."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import partial

import pytest

import opendataflow
from opendataflow import Store
from opendataflow.cli.door import open_door
from tests.contract.test_bad_input import BAD_IDS
from tests.contract.test_broken_definitions import BREAKS
from tests.support.broken import Flow
from tests.support.flows import chain, dataset, dump, job, produce
from tests.support.shell import Answer
from tests.support.stores import open_again, store, store_url

__all__ = ["open_again", "store", "store_url"]

# What a shell would obey. OWNED is a file that nobody must make.
METACHARACTERS = "$(touch OWNED)`touch OWNED`;touch OWNED|touch OWNED&touch OWNED\\'\"${IFS}*?~!#%s{}<>"


@pytest.fixture
def typed(flow: Flow, capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Answer]]:
    """Types commands in the folder of the flow, without a process for each of them: many are wrong in the same way."""
    with pytest.MonkeyPatch.context() as here:
        here.chdir(flow.folder)
        for name in [name for name in os.environ if name.startswith(("ODF_", "PASSKEY"))]:
            here.delenv(name)
        for name, value in flow.shell.environment.items():
            here.setenv(name, value)

        def odf(*words: str, code: int | None = None) -> Answer:
            capfd.readouterr()
            ended = open_door(list(words))
            answer = Answer(ended, *capfd.readouterr())
            assert code is None or ended == code, (words, answer)
            assert ended != 70, (words, answer)
            return answer

        yield odf


def stored(flow: Flow) -> dict[str, list[object]]:
    with opendataflow.open(flow.store_url) as store:
        return dump(store)


# Another environment -------------------------------------------------------------------------------------------------


@pytest.mark.fault(17)
@pytest.mark.parametrize(
    "door", [("run", "jobs/make.sh"), ("run", "make", "--dataid", "1"), ("start", "make"), ("drain",)]
)
def test_a_location_of_dev_is_no_location_of_prod(flow: Flow, door: tuple[str, ...]) -> None:
    """The project of prod was copied from dev, with a path of dev left in it."""
    flow.prepare([1])
    toml = flow.folder / "dataflow.toml"
    declared = toml.read_text()
    wrong = declared.replace('roots = ["./data"]', 'roots = ["./prod"]')
    wrong = wrong.replace('"raw/', f'"{flow.folder}/data/raw/').replace('"made/', f'"{flow.folder}/data/made/')
    toml.write_text(wrong)
    flow.shell.odf("apply", "--yes", code=None)
    refused = flow.shell.odf(*door, code=None)
    assert refused.code in (12, 18), refused
    assert "INVALID_PATH" in refused.out + refused.err or "UNTRUSTED_DEFINITION" in refused.out + refused.err
    assert (
        flow.attempts()
        == flow.shell.odf("sql", "select count(*) as n from run where status = 'REFUSED'", "--json").data[0]["n"]
    )
    assert not (flow.folder / "data/made").exists() or not list((flow.folder / "data/made").iterdir())
    toml.write_text(declared)
    flow.shell.odf("apply", "--yes")
    flow.shell.odf("resubmit", "--failed", "--yes", code=None)
    flow.heal()
    until_ready(flow)
    flow.audit()


def until_ready(flow: Flow) -> None:
    """What was refused is looked at again when somebody names it, instead of a minute later."""
    for name, jobid in (("made", "make"), ("used", "use")):
        if (
            flow.shell.odf(
                "sql", f"select 1 from datastatus where datasetid = '{name}' and status = 'READY'", "--json"
            ).data
            == []
        ):
            flow.shell.odf("run", jobid, "--dataid", "1")


@pytest.mark.fault(17)
def test_the_store_of_another_environment_is_not_written(flow: Flow) -> None:
    flow.prepare([1])
    before = stored(flow)
    toml = flow.folder / "dataflow.toml"
    declared = toml.read_text()
    toml.write_text(declared.replace("[environment.dev]", "[environment.prod]"))
    for door in (("run", "jobs/make.sh"), ("drain",), ("start", "make"), ("ready", "raw", "2"), ("apply", "--yes")):
        refused = flow.shell.odf(*door, code=12)
        assert "INVALID_PATH" in refused.out + refused.err
        assert "dev" in refused.out + refused.err
    assert stored(flow) == before
    toml.write_text(declared)
    flow.heal()
    flow.audit()


# Definitions ---------------------------------------------------------------------------------------------------------

_OTHER = '\n[dataset.{name}]\npartition = "number"\n'
_JOB = '\n[job.{name}]\nreads = ["{reads}"]\nwrites = ["{writes}"]\n'


def ring(length: int) -> str:
    """Jobs that wait for one another in a circle of this length."""
    datasets = "".join(_OTHER.format(name=f"d{n}") for n in range(length))
    return datasets + "".join(
        _JOB.format(name=f"j{n}", reads=f"d{n}", writes=f"d{(n + 1) % length}") for n in range(length)
    )


@pytest.mark.fault(19)
@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("TWO_PRODUCERS", _JOB.format(name="twin", reads="raw", writes="made")),
        ("CYCLE", ring(1)),
        ("CYCLE", ring(2)),
        ("CYCLE", ring(50)),
        ("CYCLE", _JOB.format(name="back", reads="used", writes="raw")),
    ],
    ids=["two producers", "1", "2", "50", "through what is there"],
)
def test_what_cannot_run_is_not_applied(flow: Flow, name: str, more: str) -> None:
    flow.prepare([1])
    before = stored(flow)
    toml = flow.folder / "dataflow.toml"
    declared = toml.read_text()
    toml.write_text(declared + more + _OTHER.format(name="innocent"))
    for words in (("apply", "--yes"), ("apply", "--dry-run")):
        refused = flow.shell.odf(*words, code=2)
        assert name in refused.out + refused.err
    assert stored(flow) == before
    toml.write_text(declared)
    flow.heal()
    flow.audit()


@pytest.mark.fault(35)
def test_one_bad_definition_among_a_thousand_stops_its_own_jobs_only(store: Store) -> None:
    """All kinds of bad ones at once, one after another into the same store; the thousand are still all there."""
    good = [f"good{number}" for number in range(1000)]
    chain(store)
    store.register(
        [dataset("here"), dataset("there"), *map(dataset, good), *(dataset(f"{name}.out") for name in good)],
        [
            job("other", "here", writes="there", pool="few"),
            *(job(name, name, writes=f"{name}.out", pool="many") for name in good),
        ],
        [opendataflow.Pool("few", 2), opendataflow.Pool("many", None)],
    )
    for name in good:
        store.announce(name, ["1"])
    concerned: set[str] = set()
    for number, (statement, jobs) in enumerate(BREAKS.values()):
        store.dml(statement)
        concerned |= jobs
        broken = {name for kind, name in store.catalogue().broken if kind == "job"}
        assert broken <= concerned | {"use"}, statement
        assert jobs <= broken, statement
        for name in good[number::100]:
            assert produce(store, name, "1").jobid == name
    left = [name for name in good if not store.views.chunk(f"{name}.out", "1")]
    for name in left[:50]:
        assert produce(store, name).dataid == "1"
    assert store.views.claimable_jobs() >= set(left[50:])
    assert store.breaches() == []


# Names ---------------------------------------------------------------------------------------------------------------


def named(*words: str) -> list[str]:
    """A verb about the chunk of made that is named last."""
    *verb, bad = words
    return [*verb, "made", "--", bad]


@pytest.mark.fault(20)
def test_an_id_outside_the_grammar_passes_no_door(flow: Flow, typed: Callable[..., Answer]) -> None:
    flow.prepare([1])
    flow.shell.odf("rescue")
    before = stored(flow)
    doors: list[Callable[[str], list[str]]] = [
        lambda bad: ["ready", "raw", "--", bad],
        lambda bad: ["ready", "--", bad, "1"],
        lambda bad: ["run", "make", f"--dataid={bad}"],
        lambda bad: ["run", "make", "--force", f"--dataid={bad}"],
        lambda bad: ["run", "--", bad],
        lambda bad: ["drain", "--", bad],
        lambda bad: ["start", "make", f"--dataid={bad}"],
        lambda bad: ["start", "--", bad],
        lambda bad: ["startjob", "--", bad],
        lambda bad: ["endjob", "make", "--", bad, "FAILED"],
        lambda bad: ["discover", "--", bad],
        lambda bad: ["pool", "set", "--create", "--", bad, "2"],
        lambda bad: ["pause", "--", bad],
        lambda bad: ["cancel", "make", "--", bad],
        lambda bad: ["schema", "--accept", "--", bad],
        lambda bad: ["recall", "--why", "x", "--yes", "made", "--", bad],
        lambda bad: ["rollback", "made", "--", bad],
        lambda bad: ["shard", "--count=2", "--", bad],
        *(partial(named, verb, "--yes") for verb in ("resubmit", "hold", "release", "fail", "forget")),
        *(partial(named, verb) for verb in ("explain", "where", "head", "lineage", "impact")),
        lambda bad: ["why", "make", "--", bad],
    ]
    for what, bad in BAD_IDS.items():
        for door in doors:
            words = door(bad)
            answer = typed(*words)
            assert answer.code != 0 or words[0] in ("resubmit", "hold", "release", "fail", "forget"), (what, words)
            said = answer.out + answer.err
            assert "Traceback" not in said
            assert not any(character in said for character in "\0\u202e"), (what, words)
            assert "insert into" not in said, (what, words, "nobody is offered to run it")
    assert stored(flow) == before
    assert not list(flow.folder.rglob("passwd"))
    flow.heal()
    flow.audit()


@pytest.mark.fault(20)
def test_a_file_with_such_a_name_is_no_chunk_and_a_project_cannot_declare_one(
    flow: Flow, typed: Callable[..., Answer]
) -> None:
    flow.prepare([1])
    for bad in ("a b", "$(touch OWNED)", "-rf", "a\nb", "\u202ebob", "it's", "x" * 200):
        flow.shell.write(f"data/raw/{bad}.csv", f"{bad}\n")
    typed("discover", "raw", "--quiet-for", "0", code=0)
    toml = flow.folder / "dataflow.toml"
    declared = toml.read_text()
    before = stored(flow)
    for bad in BAD_IDS.values():
        name = json.dumps(bad)
        for more in (
            f"[dataset.{name}]\n",
            f"[pool.{name}]\nslots = 1\n",
            f'[job.{name}]\nreads = ["raw"]\nwrites = []\n',
        ):
            toml.write_text(f"{declared}\n{more}")
            assert typed("apply", "--yes").code == 2, more[:80]
    toml.write_text(declared)
    assert stored(flow) == before
    assert {row[1] for row in flow_chunks(flow)} == {"1"}
    for path in (flow.folder / "data/raw").iterdir():
        if path.name != "1.csv":
            path.unlink()
    flow.heal()
    flow.audit()


def flow_chunks(flow: Flow) -> list[tuple[str, str]]:
    with opendataflow.open(flow.store_url) as store:
        return [(chunk.datasetid, chunk.dataid) for chunk in store.views.chunks("raw")]


OBEYED = ("PATH", "LD_PRELOAD", "BASH_ENV", "ENV", "IFS", "PYTHONPATH", "ODF_STORE", "PASSKEY")


@pytest.mark.fault(21)
@pytest.mark.parametrize("door", [("run", "peep"), ("drain",)])
def test_a_field_full_of_metacharacters_is_a_text_and_a_dataset_no_variable(flow: Flow, door: tuple[str, ...]) -> None:
    quoted = json.dumps(METACHARACTERS)
    place = json.dumps("odd " + re.sub(r"[{}/\\*?]", "", METACHARACTERS) + "/{dataid}")
    odd = "".join(f'[dataset.{name}]\nlocation = "{name}/{{dataid}}"\n' for name in OBEYED)
    flow.shell.write(
        "dataflow.toml",
        f"""[project]
name = "odd"
[environment.dev]
roots = ["./data"]
[pool.few]
slots = 1
description = {quoted}
{odd}
[dataset.odd]
location = {place}
description = {quoted}
owner = {quoted}
tags = [{quoted}]
[job.peep]
reads = [{", ".join(json.dumps(name) for name in OBEYED)}]
writes = ["odd"]
pool = "few"
description = {quoted}
env = {{ SAID = {quoted} }}
""",
    )
    flow.shell.script("jobs/peep.sh", 'env -0 >seen; cat "$PATH_location" >"$odd_location"')
    flow.shell.odf("apply", "--yes")
    for name in OBEYED:
        flow.shell.write(f"data/{name}/1", "evil\n")
    flow.shell.odf("discover", "--all", "--quiet-for", "0", code=None)
    flow.shell.odf(*door)
    seen = dict(entry.split("=", 1) for entry in (flow.folder / "seen").read_text().split("\0") if entry)
    assert seen["PATH"] == flow.shell.environment["PATH"]
    assert not {"LD_PRELOAD", "BASH_ENV", "ENV", "PYTHONPATH", "PASSKEY"} & seen.keys()
    assert seen["BASH_ENV_location"].endswith("data/BASH_ENV/1")
    assert seen["SAID"] == seen["item_SAID"] == METACHARACTERS
    assert not list(flow.folder.rglob("OWNED"))
    flow.shell.odf("resubmit", "odd", "1", "--yes")
    lines = flow.shell.odf("start", "peep").out
    (flow.folder / "lines").write_text(lines)
    script = flow.shell.script(
        "evaluate.sh", 'eval "$(cat lines)"; printf %s "$item_SAID" >said; odf_run=$ODF_RUN; echo "$odf_run" >number'
    )
    subprocess.run([script], cwd=flow.folder, check=True, timeout=120)
    assert (flow.folder / "said").read_text() == METACHARACTERS
    assert not list(flow.folder.rglob("OWNED"))
    flow.shell.odf("end", (flow.folder / "number").read_text().strip(), "FAILED")
    for look in ("status", "why peep", "explain odd 1", "jobs peep", "datasets odd", "lineage odd 1", "report"):
        flow.shell.odf(*look.split())
    assert not list(flow.folder.rglob("OWNED"))
    flow.audit(golden=False)
