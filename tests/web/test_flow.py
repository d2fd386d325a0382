"""The page Flow: the graph of datasets and jobs, and the graph of versions of a chunk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from opendataflow import Store
from opendataflow.store import open_store
from tests.support.console import console
from tests.support.flows import claim_one, dataset, drain, dump, job, produce

# They share one store, in this order.

EVIL = "<script>alert(1)</script>"
LONG = "a_dataset_whose_name_is_far_too_long_for_any_box_that_we_draw"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with raw → make → product → use → report, where something failed, is stale and is set aside."""
    folder = tmp_path_factory.mktemp("flow")
    with open_store(f"sqlite:///{folder}/dataflow.db", create=True) as store:
        store.register(
            [*(dataset(name) for name in ("raw", "product", "report", LONG)), dataset("alone")],
            [job("make", "raw", writes="product"), job("use", "product", writes=["report", LONG])],
        )
        store.announce("raw", ["1", "2", "3"])
        produce(store, "make", "1")
        drain(store, "use")
        store.announce("raw", ["1"], again=True)
        store.fail(claim_one(store, "make"), "JOB_FAILED", EVIL)
        store.hold("raw", ["3"], why=EVIL)
    return folder


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[TestClient]:
    with console(folder, f"sqlite:///{folder}/dataflow.db") as client:
        yield client


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with open_store(f"sqlite:///{folder}/dataflow.db") as store:
        yield store


def boxes(text: str) -> dict[str, str]:
    """The state of each box by its title's first words."""
    found = re.findall(r'<a class="box (\w+) is-(\w+)[^>]*><title>\w+ ([^:]+):', text)
    return {f"{kind} {name}": state for kind, state, name in found}


def test_the_graph_shows_every_dataset_and_job_with_its_worst_state(browser: TestClient) -> None:
    text = browser.get("/flow").text
    assert boxes(text) == {
        "dataset raw": "HOLD",
        "job make": "FAILED",
        "dataset product": "FAILED",
        "job use": "READY",
        "dataset report": "STALE",
        f"dataset {LONG}": "STALE",
        "dataset alone": "NONE",
    }
    assert "7 datasets and jobs" in text
    assert LONG in text
    assert "a_dataset_wh…" in text  # its name is cut in the box, and whole in the title


def test_a_node_is_a_link_that_shows_its_chunks_beside_the_graph(browser: TestClient) -> None:
    assert 'href="/flow?node=dataset+product"' in browser.get("/flow").text
    text = browser.get("/flow?node=dataset+product").text
    assert 'href="/chunk/product/2"' in text
    assert 'href="/flow/product/1"' in text
    assert 'aria-current="true"' in text
    assert 'href="/job/make"' in browser.get("/flow?node=job+make").text


def test_the_graph_can_be_that_around_a_node_or_of_what_is_not_well(browser: TestClient) -> None:
    assert set(boxes(browser.get("/flow?around=raw&depth=1").text)) == {"dataset raw", "job make", "dataset product"}
    assert "job use" not in boxes(browser.get("/flow?not_well=true").text)
    assert "dataset product" in boxes(browser.get("/flow?not_well=true").text)


def test_the_same_is_there_as_a_table(browser: TestClient) -> None:
    table = browser.get("/flow").text.partition('id="table"')[2]
    assert table.count("<tr>") == 8
    assert f"{LONG}, report" in table


def test_the_versions_of_a_chunk_are_a_graph(browser: TestClient) -> None:
    text = browser.get("/flow/report/1").text
    assert set(re.findall(r'<a class="box version [^>]*><title>([^:]+):', text)) >= {
        "report 1 version 1",
        "product 1 version 1",
        "raw 1 version 1, now 2",
    }
    assert "version 1" in text
    assert browser.get("/flow/product/2").status_code == 200
    assert "No version of this chunk was published yet" in browser.get("/flow/product/2").text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/flow?node=nothing", 404),
        ("/flow?around=nothing", 404),
        ("/flow?depth=0", 400),
        ("/flow?depth=x", 400),
        ("/flow?part=0", 400),
        ("/flow?part=77", 200),
        (f"/flow?around={EVIL}", 404),
        (f"/flow?node={EVIL}", 404),
        ("/flow/nothing/1", 404),
        ("/flow/product/1?version=99", 404),
        (f"/flow/product/{EVIL}", 404),
    ],
)
def test_what_is_not_there_is_said_and_no_script_comes_back(browser: TestClient, path: str, status: int) -> None:
    answer = browser.get(path)
    assert answer.status_code == status
    assert EVIL not in answer.text


def test_no_page_has_a_script_or_a_style_inside(browser: TestClient) -> None:
    for path in ("/flow", "/flow?node=job+make", "/flow/report/1"):
        text = browser.get(path).text
        assert EVIL not in text
        assert not re.search(r"<style|<script(?![^>]*src=)|\sstyle=|\son\w+=", text)


def test_looking_writes_nothing(browser: TestClient, store: Store) -> None:
    before = dump(store)
    for path in ("/flow", "/flow?node=job+make", "/flow?node=product&not_well=1", "/flow/report/1"):
        assert browser.get(path).status_code == 200
        assert browser.post(path).status_code == 403
    assert dump(store) == before


def test_a_flow_without_anything_says_what_to_do(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/dataflow.db"
    open_store(url, create=True).close()
    assert "odf apply" in console(tmp_path, url).get("/flow").text


def test_thousands_of_nodes_are_a_map_with_parts_and_stay_light(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/dataflow.db"
    with open_store(url, create=True) as store:
        names = [f"dataset-of-the-flow-{n:04d}" for n in range(1500)]
        store.register(
            [dataset(name) for name in names],
            [job(f"job-of-the-flow-{n:04d}", names[n // 3], writes=names[n]) for n in range(1, 1500)],
        )
        store.announce(names[0], ["1"])
        store.fail(claim_one(store, "job-of-the-flow-0001"), "JOB_FAILED", "no")
    browser = console(tmp_path, url)
    whole = browser.get("/flow")
    assert "2,999 nodes are too many to name" in whole.text
    assert len(whole.content) < 300_000
    parts = {int(number) for number in re.findall(r'href="/flow\?part=(\d+)"', whole.text)}
    assert parts == {*range(1, len(parts) + 1)}
    for number in (1, max(parts)):
        part = browser.get(f"/flow?part={number}")
        assert len(part.content) < 300_000
        assert 100 < part.text.count('<a class="box') <= 500
    # What is not well can be reached from the map, with what is around it.
    assert "around=job+job-of-the-flow-0001" in whole.text
    near = browser.get("/flow?around=job-of-the-flow-0001&depth=2")
    assert len(near.content) < 300_000
    assert boxes(near.text)["job job-of-the-flow-0001"] == "FAILED"
