"""What a row says of how chunks arrive is checked before anything is looked at; one bad manifest stops no other chunk."""

from __future__ import annotations

from pathlib import Path

import pytest

from opendataflow import Dataset
from opendataflow.errors import BadDefinition
from opendataflow.project import Environment, Project
from opendataflow.run.arrival import discover
from opendataflow.run.worker import Worker
from opendataflow.store import open_store


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    (tmp_path / "data/in").mkdir(parents=True)
    for dataid in ("1", "2"):
        (tmp_path / f"data/in/{dataid}.csv").write_text(f"{dataid}\n")
    environment = Environment("dev", (str(tmp_path / "data"),))
    project = Project(tmp_path, None, "test", (), environment, ("dev",), tmp_path / "logs")
    return Worker(open_store(f"sqlite:///{tmp_path}/store.db", create=True), project, None, echo=False)


def arriving(worker: Worker, **ready: object) -> Dataset:
    dataset = Dataset("raw", kind="file", location="in/{dataid}.csv", options={"ready": ready})
    worker.store.register([dataset], [])
    return dataset


@pytest.mark.parametrize(
    "ready",
    [
        {"quiet": "x"},
        {"quiet": 1e30},
        {"quiet": -1},
        {"quiet": True},
        {"quiet": None},
        {"marker": "../../etc/passwd"},
        {"marker": "/etc/passwd"},
        {"marker": "a/{dataid}"},
        {"marker": ".."},
        {"marker": ""},
        {"marker": "a\0b"},
        {"marker": 5},
    ],
)
def test_a_rule_that_cannot_be_is_refused(worker: Worker, ready: dict[str, object]) -> None:
    with pytest.raises(BadDefinition, match="dataset raw"):
        discover(worker, arriving(worker, **ready))


def test_a_marker_is_a_name_beside_the_data(worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "data/in/2.done").touch()
    assert [each.dataid for each in discover(worker, arriving(worker, marker="{dataid}.done"))] == ["2"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_wrong_manifest_is_the_trouble_of_its_own_chunk(worker: Worker, dry_run: bool) -> None:
    dataset = arriving(worker, quiet=0)
    assert {each.verdict for each in discover(worker, dataset)} == {"READY"}
    worker.store.dml("update data_manifest set body = '{' where dataid = '1'")
    worker.store.forget("raw", ["2"])
    verdicts = {each.dataid: each.verdict for each in discover(worker, dataset, dry_run=dry_run)}
    assert verdicts == {"1": "BAD_DEFINITION", "2": "READY"}
