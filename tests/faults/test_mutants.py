"""odf chaos can fail: each promise has a defect that breaks it, and a chaos of a package with that defect says so.

A mutant is a defect in a copy of the package. One that survives fails its test; so does a promise without a mutant, and
a mutant whose text is no longer in the source. A few are played with every test, all of them with --soak.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import opendataflow
from opendataflow.chaos import auditor, promises
from opendataflow.store.views import soundness

PACKAGE = Path(opendataflow.__file__).parent
SQL = "store/sql/queries/runs.sql"
SEEDS = ("1", "2", "3")  # on a busy machine a fault may miss its moment: the next seed plans others
OUT_OF_RUN = """\
update datastatus set status = :out_status, seal = seal + 1, modified = now(),
       version = case when :out_status = 'READY' then epoch else version end,
       tries = case when :out_status = 'READY' then 0 when :kind = 'stopped' then max(tries - 1, 0) else tries end
where datasetid in"""
END_OF_RUN = """\
update run set status = :run_status, ended = now(), lease_until = null, outcome = :outcome, detail = :detail, exit_code = :exit_code
where runid = :runid and"""


@dataclass(frozen=True)
class Mutant:
    """A defect: in a file of the package one text becomes another; the promise that it breaks, and the faults that show it."""

    defect: str
    promise: str
    file: str
    old: str
    new: str
    faults: str
    minutes: str = "2"
    chunks: str = "4"  # there is a fault for two of them
    on_server: bool = False
    is_quick: bool = False

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        """Only a few are played with every test, and some need a server."""
        return [*([] if self.is_quick else [pytest.mark.soak]), *([pytest.mark.postgres] if self.on_server else [])]


MUTANTS = [
    Mutant(
        "an end writes what a constraint forbids",
        auditor.UNDAMAGED,
        SQL,
        END_OF_RUN,
        f"pragma ignore_check_constraints = on;\nupdate jobrule set backoff_max = -1;\n{END_OF_RUN}",
        "kill-script",
        "0.3",
    ),
    Mutant(
        "an end is stored twice in the history",
        soundness.PUBLISHED_ONCE,
        SQL,
        ":owner, :detail, now()\nfrom json_each(:outputs) o\n",
        ":owner, :detail, now()\nfrom json_each(:outputs) o cross join (select 1 union all select 2)\n",
        "kill-script",
    ),
    Mutant(
        "a version is published without its manifest",
        soundness.WHOLE,
        "store/engine/run_end.py",
        '        tx.run("manifest_put", **manifests[0])\n',
        "        pass\n",
        "kill-script",
        "0.3",
    ),
    Mutant(
        "a later version is not the current one",
        soundness.STAYS,
        SQL,
        "version = case when :out_status = 'READY' then epoch else version end,\n       tries = case when :out_status = 'READY' then 0 when",
        "version = case when :out_status = 'READY' and version = 0 then epoch else version end,\n       tries = case when :out_status = 'READY' then 0 when",
        "damage-file",
        "0.3",
    ),
    Mutant(
        "a chunk that failed stays RUNNING",
        soundness.ONE_LOCK,
        SQL,
        OUT_OF_RUN,
        OUT_OF_RUN.replace(":out_status,", "case when :kind = 'failed' then 'RUNNING' else :out_status end,", 1),
        "kill-script",
        "0.3",
    ),
    Mutant(
        "a run has a lower epoch than the one before",
        soundness.GROWING,
        SQL,
        END_OF_RUN,
        END_OF_RUN.replace("set status", "set epoch = 1000 - runid, status"),
        "kill-script",
        "0.3",
    ),
    Mutant(
        "a failed run is not in the history",
        soundness.ONE_END,
        SQL,
        "where exists (select 1 from run where runid = :runid and status = 'RUNNING');\nupdate datastatus set status = :in_status",
        "where exists (select 1 from run where runid = :runid and status = 'RUNNING') and :kind <> 'failed';\nupdate datastatus set status = :in_status",
        "kill-script",
    ),
    Mutant(
        "the history has another version than the chunk",
        soundness.ONLY_PUBLISHED,
        SQL,
        "select :kind, s.datasetid, s.dataid, :jobid, :runid, :epoch, 'RUNNING'",
        "select :kind, s.datasetid, s.dataid, :jobid, :runid, :epoch + 1, 'RUNNING'",
        "kill-script",
    ),
    Mutant(
        "no run is rescued",
        soundness.SWEPT,
        "store/engine/run_end.py",
        "        transition.end_with_events(tx, expired, outputs, ended)\n",
        "",
        "kill-worker",
        "0.5",
    ),
    Mutant(
        "an end has no status before it",
        soundness.UNBROKEN,
        SQL,
        ":epoch, 'RUNNING', :out_status, :owner, :detail, now()\nfrom json_each(:outputs) o\n",
        ":epoch, null, :out_status, :owner, :detail, now()\nfrom json_each(:outputs) o\n",
        "kill-script",
    ),
    Mutant(
        "what failed is no candidate again",
        soundness.DERIVED,
        "store/engine/run_end.py",
        "    candidates.derive(tx, catalogue, [(job.jobid, dataid)], not_before=not_before)\n",
        "",
        "kill-script",
        "0.3",
    ),
    Mutant(
        "a manifest holds another checksum than its file",
        auditor.AS_PUBLISHED,
        "files/manifests.py",
        "        yield file._replace(checksum=_checksum(opened(file))) if",
        "        yield file._replace(checksum=_checksum(opened(file))[::-1]) if",
        "kill-script",
        "0.3",
    ),
    Mutant(
        "a script that was killed counts as one that ended well",
        auditor.GOLDEN,
        "run/process/launch.py",
        "        code = self.status\n",
        "        code = 0 if self.status == -9 else self.status\n",
        "kill-script",
        is_quick=True,
    ),
    Mutant(
        "a commit leaves a second name of its file",
        auditor.NOTHING_STRAY,
        "files/replacement.py",
        "            os.replace(prepared, location)\n",
        '            os.link(prepared, f"{location}.{os.urandom(3).hex()}")\n            os.replace(prepared, location)\n',
        "kill-script",
        "0.3",
    ),
    Mutant(
        "a log keeps a password",
        auditor.NO_SECRET,
        "run/process/logs.py",
        "        return Redactor(self._secrets)\n",
        "        return Redactor(())\n",
        "kill-script",
        is_quick=True,
    ),
    Mutant(
        "a run that lost its chunk ends as published",
        promises.ANSWERED,
        "store/engine/run_end.py",
        "        if held.get(claim.runid, 0) < len(claim.outputs):\n",
        "        if False:\n",
        "take-chunk",
    ),
    Mutant(
        "a commit renames before the fence",
        promises.FENCED,
        "store/run_verbs.py",
        "            catalogue, confirm = self._cached_catalogue(tx)\n            statuses, remarks = run_end.commit(",
        "            catalogue, confirm = self._cached_catalogue(tx)\n            for step in publish_files:\n                step()\n"
        "            statuses, remarks = run_end.commit(",
        "take-chunk",
        is_quick=True,
    ),
    Mutant(
        "what earlier attempts prepared is not revoked",
        promises.FENCED,
        "run/staging.py",
        "                replacement.revoke(output.published, claim.epoch)\n",
        "",
        "freeze-worker",
        chunks="8",
        on_server=True,
    ),
    Mutant(
        "a heartbeat ignores a lost lease",
        promises.ENDED,
        "run/heartbeat.py",
        "            if claim.runid not in ours:\n",
        "            if False:\n",
        "take-chunk",
    ),
    Mutant(
        "a lease expires a second early",
        promises.NOT_EARLY,
        "store/sql/queries/claims.sql",
        "'RUNNING', :pool, :owner, :lease, lease_now() + :lease, :forced, now());",
        "'RUNNING', :pool, :owner, :lease, lease_now() + :lease - 1, :forced, now());",
        "kill-worker",
        is_quick=True,
    ),
    Mutant(
        "a lost answer to COMMIT counts as a no",
        promises.ANSWERED,
        "store/session.py",
        "return bool(lost.transaction) and self._backend.was_committed(lost.transaction)",
        "return False",
        "lose-answer",
        on_server=True,
        is_quick=True,
    ),
    Mutant(
        "a COMMIT without an answer counts as a yes",
        promises.ANSWERED,
        "store/session.py",
        "if not (self._reconnected(lost, waiting) and confirm(lost.answer)):",
        "if not (self._reconnected(lost, waiting) or True):",
        "cut-connection",
        chunks="8",
        on_server=True,
        is_quick=True,
    ),
    Mutant(
        "an input is not compared with what was published",
        promises.NAMED,
        "files/manifests.py",
        "        elif file.checksum and (by_content or file.was_touched(now)):\n",
        "        elif file.checksum and file.was_touched(now):\n",
        "damage-file",
        "0.5",
        is_quick=True,
    ),
    Mutant(
        "a lost lease is an error without a name",
        promises.TIDY,
        "store/engine/run_end.py",
        '    return LeaseLost(\n        f"run {claim.runid} of',
        '    return RuntimeError(\n        f"run {claim.runid} of',
        "take-chunk",
    ),
]


def mutated(folder: Path, mutant: Mutant | None) -> Path:
    """A copy of the package, with the defect of a mutant."""
    copy = folder / "mutated"
    shutil.copytree(PACKAGE, copy / "opendataflow", ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        path = copy / "opendataflow" / mutant.file
        path.write_text(path.read_text().replace(mutant.old, mutant.new))
    return copy


def chaos(package: Path, folder: Path, *words: str) -> dict[str, bool | None]:
    """Whether each promise was kept, as a chaos with this package says; None where it was not tested."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "opendataflow", "chaos", "--yes", "--json", "--workers", "3", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(package), "ODF_AS_SUPERUSER": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    assert "promises" in answer, answer
    return {each["promise"]: each["kept"] for each in answer["promises"]}


def test_a_copy_without_a_defect_breaks_no_promise(tmp_path: Path) -> None:
    words = ("--chunks", "4", "--minutes", "2", "--faults", "kill-script,take-chunk")
    told = chaos(mutated(tmp_path, None), tmp_path / "project", *words)
    assert [promise for promise, is_kept in told.items() if is_kept is False] == []


@pytest.mark.parametrize("mutant", [pytest.param(each, id=each.defect, marks=each.marks) for each in MUTANTS])
def test_no_mutant_survives(mutant: Mutant, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = ("--store", request.getfixturevalue("postgres_url")) if mutant.on_server else ()
    words = ("--chunks", mutant.chunks, "--minutes", mutant.minutes, "--faults", mutant.faults, *store)
    package = mutated(tmp_path, mutant)
    told = []
    for seed in SEEDS:
        told.append(chaos(package, tmp_path / seed, "--seed", seed, *words)[mutant.promise])
        if told[-1] is False:
            return
    pytest.fail(f"{mutant.defect}: {mutant.promise!r} was reported as {told}, and not as broken")


def test_each_promise_has_a_mutant() -> None:
    assert {each.promise for each in MUTANTS} == set(promises.PROMISES)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.defect)
def test_what_a_mutant_changes_is_in_the_source_once(mutant: Mutant) -> None:
    assert (PACKAGE / mutant.file).read_text().count(mutant.old) == 1
