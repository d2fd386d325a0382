"""What is live: one reader tells every open page what changed, and whether the store is there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from opendataflow import Store
from opendataflow.errors import StoreUnreachable
from opendataflow.web.site import Site
from tests.support.console import console
from tests.support.flows import chain
from tests.support.stores import type_sql

PATIENCE = 240


async def heard(stream: AsyncIterator[str]) -> tuple[str, Any]:
    """The next event of a stream: its name and what it says."""
    async with asyncio.timeout(PATIENCE):
        while (said := await anext(stream)).startswith(":"):
            pass  # it is only still there
    name, data = (line.partition(": ")[2] for line in said.splitlines()[:2])
    return name, json.loads(data)


@pytest.fixture
def site(store, store_url, tmp_path) -> Site:
    chain(store)
    site: Site = console(tmp_path, store_url).app.state.site  # type: ignore[attr-defined]
    return site


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a story in a thread of its own: a browser that an earlier test opened keeps a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, story()).result()


async def keep_announcing(store: Store) -> None:
    """Something changes again and again: the first look of a reader only learns where history ends."""
    for number in range(1000):
        await asyncio.to_thread(store.announce, "raw", [str(number)])
        await asyncio.sleep(0.2)


async def rest_of(stream: AsyncIterator[str]) -> list[str]:
    async with asyncio.timeout(PATIENCE):
        return [said async for said in stream]


def test_every_page_hears_of_a_change_from_one_reader(site, store) -> None:
    async def story() -> None:
        streams = [site.live.stream() for _ in range(3)]
        assert {(await heard(stream))[0] for stream in streams} == {"hello"}
        changing = asyncio.create_task(keep_announcing(store))
        name, told = await heard(streams[0])
        changing.cancel()
        assert name == "change"
        assert "dataset:raw" in told["topics"]
        assert any(topic.startswith("chunk:raw/") for topic in told["topics"])
        for stream in streams[1:]:
            assert (await heard(stream))[1] == told
        site.live.stop()
        for stream in streams:
            await rest_of(stream)  # has an end now

    play(story)


def test_a_store_that_goes_away_and_comes_back_is_said(site, monkeypatch) -> None:
    async def story() -> None:
        stream = site.live.stream()
        await heard(stream)

        def gone(seen: int | None) -> Any:
            raise StoreUnreachable("it is gone")

        look = site.live._look
        monkeypatch.setattr(site.live, "_look", gone)
        assert await heard(stream) == ("store", {"lost": True, "why": "it is gone"})
        monkeypatch.setattr(site.live, "_look", look)
        assert await heard(stream) == ("store", {"lost": False})
        assert (await heard(stream))[1]["topics"] == ["*"]
        site.live.stop()

    play(story)


def test_the_reader_of_all_pages_survives_everything(site, monkeypatch) -> None:
    async def story() -> None:
        stream = site.live.stream()
        await heard(stream)

        def broken(seen: int | None) -> Any:
            raise RuntimeError("a table is gone")

        look = site.live._look
        monkeypatch.setattr(site.live, "_look", broken)
        assert await heard(stream) == ("store", {"lost": True, "why": "the store cannot be read"})
        monkeypatch.setattr(site.live, "_look", look)
        assert await heard(stream) == ("store", {"lost": False})
        site.live.stop()

    play(story)


def test_a_store_of_another_form_is_no_bug(store, store_url, tmp_path) -> None:
    client = console(tmp_path, store_url)
    assert client.get("/history").status_code == 200
    type_sql(store_url, "update migration set number = 9; alter table event rename to away")
    assert client.get("/history").status_code == 503
    assert client.get("/chunk/a/b").status_code in (404, 503)
