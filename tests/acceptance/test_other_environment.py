"""A project that points at the store of another environment may look, and change nothing; by whatever verb."""

from __future__ import annotations

import pytest

from opendataflow import Store
from opendataflow.cli.door import ALIASES, VERBS
from opendataflow.errors import InvalidPath
from opendataflow.store import open_store
from tests.support.flows import chain, claim_one, dump, fold_in, produce
from tests.support.odf import Odf

pytestmark = pytest.mark.fault(17)

PROJECT = """
[environment.dev]
roots = ["."]

[dataset.raw]
partition = "number"

[dataset.product]
partition = "number"

[job.make]
reads = "raw"
writes = "product"
"""

# Every verb that could change the store, and how it is said; RUN is a run that is going on.
WRITING = {
    "apply": ["--yes"],
    "migrate": [],
    "run": ["make"],
    "drain": [],
    "start": ["make"],
    "end": ["RUN", "FAILED"],
    "rescue": [],
    "ready": ["raw", "7"],
    "discover": ["raw"],
    "shard": ["raw", "--count", "2"],
    "resubmit": ["product", "1"],
    "hold": ["product", "1"],
    "release": ["product", "2"],
    "fail": ["product", "1"],
    "forget": ["product", "1"],
    "recall": ["product", "1", "--why", "bad", "--yes"],
    "rollback": ["product", "1"],
    "vacuum": ["--yes"],
    "pool": ["set", "etl", "0", "--create"],
    "cancel": ["RUN"],
    "pause": ["make"],
    "resume": ["make"],
    "schema": ["product", "--accept"],
    "dml": ["update datastatus set status = 'FAILED' where datasetid = 'product'"],
    "createtables": [],
    "startjob": ["make"],
    "endjob": ["make", "4", "FAILED"],
    "deleterun": ["make", "1"],
    "forcejob": ["make", "1"],
    "CreateTables": [],
    "LaunchJob": ["make"],
    "SetJobEndStatus": ["make", "4", "FAILED"],
    "DeleteRun": ["make", "1"],
    "forcejobts": ["make", "1"],
    "ddl": ["update datastatus set status = 'FAILED' where datasetid = 'product'"],
    "RunUpdate": ["update datastatus set status = 'FAILED' where datasetid = 'product'"],
}
# The others only read, touch no store, or say what a verb above says.
READING = {
    "status": [],
    "runs": [],
    "jobs": [],
    "datasets": [],
    "why": ["make"],
    "explain": ["product", "1"],
    "impact": ["raw", "1"],
    "recover": [],
    "lineage": ["raw", "1"],
    "history": [],
    "late": [],
    "timeline": [],
    "report": [],
    "check-lease": ["4"],
    "sql": ["select count(*) from event"],
    "getjob": ["make"],
    "GetJobData": ["make"],
    "GetJobs": [],
    "GetDataSets": [],
    "GetJobRuns": [],
    "RunSql": ["select count(*) from event"],
}
ELSEWHERE = {
    *("ForceJob", "ForceCmd", "SetDataStatus", "init", "demo", "doctor", "log", "prove", "crypt", "Cryptor"),
    *("check", "where", "head", "audit", "backup", "export", "import", "notify", "metrics", "diff", "serve", "chaos"),
}


def test_every_verb_is_asked_about() -> None:
    assert set(WRITING) | set(READING) | ELSEWHERE == set(VERBS) | set(ALIASES)


@pytest.fixture
def production(store: Store, odf: Odf) -> Store:
    """The store of prod, with a project of dev that points at it."""
    chain(store)
    store.announce("raw", ["1", "2", "3", "4"])
    for dataid in ("1", "2", "3"):
        produce(store, "make", dataid)
    store.hold("product", ["2"])
    claim_one(store, "make")
    store.stamp("prod")
    (odf.folder / "dataflow.toml").write_text(PROJECT)
    (odf.folder / "jobs").mkdir()
    (odf.folder / "jobs/make.sh").write_text("exit 0\n")
    return store


@pytest.mark.parametrize("verb", WRITING)
def test_what_writes_is_refused_and_changes_nothing(production: Store, odf: Odf, verb: str) -> None:
    running = next(run for run in production.views.runs() if run.status == "RUNNING")
    before = dump(production)
    words = [str(running.runid) if word == "RUN" else word for word in WRITING[verb]]
    if verb == "discover":  # it looks at a location first
        production.dml("update dataset set kind = 'file', location = '{dataid}.csv' where datasetid = 'raw'")
        fold_in(production)
        before = dump(production)
    answer = odf(verb, *words, code=None)
    assert (answer.code, answer.err.partition(":")[0]) == (InvalidPath.exit_code, "INVALID_PATH"), answer
    assert "prod, not dev" in answer.err
    assert dump(production) == before


@pytest.mark.parametrize("verb", READING)
def test_what_reads_still_answers_and_folds_nothing_in(production: Store, odf: Odf, verb: str) -> None:
    production.dml("update datastatus set status = 'RESUBMIT' where datasetid = 'product' and dataid = '1'")
    before = dump(production)
    odf(verb, *READING[verb])
    assert dump(production) == before


def test_rekey_is_refused(production: Store, odf: Odf) -> None:
    token = odf("crypt", "encrypt", "--for", "raw", "--stdin", stdin="secret", PASSKEY="a long old key", code=None)
    assert token.code == 0, token
    production.dml(f"update dataset set encryptedpass = '{token.out.strip()}' where datasetid = 'raw'")
    before = dump(production)
    keys = {"PASSKEY": "a long old key", "NEW_PASSKEY": "a long new key"}
    answer = odf("crypt", "rekey", "--all", code=InvalidPath.exit_code, **keys)
    assert answer.err.startswith("INVALID_PATH")
    assert dump(production) == before


def test_without_a_project_file_a_person_may_steer_any_store(production: Store, odf: Odf) -> None:
    (odf.folder / "dataflow.toml").unlink()
    odf("hold", "product", "1")
    answer = odf("run", "make", code=InvalidPath.exit_code)
    assert "prod, not default" in answer.err


def test_a_stamp_that_comes_later_counts_from_then_on(store: Store, store_url: str) -> None:
    chain(store)
    with open_store(store_url, environment=lambda: "dev") as mine:
        mine.announce("raw", ["1"])
        store.stamp("prod")
        with pytest.raises(InvalidPath):
            mine.announce("raw", ["2"])
        assert mine.views.chunk("raw", "1") is not None, "it can still be read"
    with open_store(store_url, environment=lambda: "prod") as theirs:
        theirs.announce("raw", ["2"])
