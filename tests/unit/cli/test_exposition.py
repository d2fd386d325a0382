"""Figures as text: the format's own escaping, and where it is served."""

from __future__ import annotations

import urllib.error
import urllib.request
from threading import Thread

import pytest
from prometheus_client.parser import text_string_to_metric_families

from opendataflow.cli.exposition import exposed, server
from opendataflow.errors import BadConfig, UsageError
from opendataflow.insight.metrics import COUNTER, GAUGE, HISTOGRAM, Figure, Labels, Spread, not_up
from opendataflow.model.listen_address import ListenAddress
from opendataflow.store.views.counts import BUCKETS


@pytest.mark.parametrize(
    ("text", "shown", "is_loopback"),
    [
        ("9464", "127.0.0.1:9464", True),
        (":9464", "127.0.0.1:9464", True),
        ("127.0.0.1:1", "127.0.0.1:1", True),
        ("localhost:1", "localhost:1", True),
        ("[::1]:9464", "[::1]:9464", True),
        ("0.0.0.0:9464", "0.0.0.0:9464", False),
        ("[::]:9464", "[::]:9464", False),
        ("etl.example:9464", "etl.example:9464", False),
    ],
)
def test_an_address_is_of_this_machine_unless_it_says_another(text: str, shown: str, is_loopback: bool) -> None:
    address = ListenAddress.parse(text)
    assert (str(address), address.is_loopback) == (shown, is_loopback)


@pytest.mark.parametrize("text", ["", "host", "host:", "::1:9464", "1.2.3.4:65536", "host:9x", "host:-1", "a:٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not an address"):
        ListenAddress.parse(text)


def test_every_kind_of_figure_is_read_back_as_it_was() -> None:
    strange: Labels = (("dataset", 'a"b\\c\nd'), ("status", "ÄÖ ‮"))
    counts = tuple(range(1, len(BUCKETS) + 2))
    text = exposed(
        [
            Figure("odf_chunks", GAUGE, "Chunks\nby \\ dataset.", {strange: 7}),
            Figure("odf_claims", COUNTER, "Claims.", {(("job", "a"),): 3, (("job", "b"),): 4}),
            Figure("odf_run_seconds", HISTOGRAM, "Seconds.", {(("job", "a"),): Spread(counts, 12.5)}),
            Figure("odf_empty", GAUGE, "Nothing.", {}),
        ]
    )
    read = {family.name: family for family in text_string_to_metric_families(text)}
    [chunk] = read["odf_chunks"].samples
    assert (chunk.labels, chunk.value) == (dict(strange), 7)
    assert [(each.name, each.value) for each in read["odf_claims"].samples] == [
        ("odf_claims_total", 3),
        ("odf_claims_total", 4),
    ]
    by_name = {each.name: each.value for each in read["odf_run_seconds"].samples if "le" not in each.labels}
    assert by_name == {"odf_run_seconds_count": counts[-1], "odf_run_seconds_sum": 12.5}
    assert [each.value for each in read["odf_run_seconds"].samples if "le" in each.labels] == list(counts)
    assert all(line.isprintable() or "\u202e" in line for line in text.splitlines())


def test_it_is_served_at_one_path_only_and_a_taken_address_is_named() -> None:
    with server(ListenAddress("127.0.0.1", 0), lambda: [not_up()]) as listening:
        Thread(target=listening.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{listening.server_port}"
        with urllib.request.urlopen(f"{url}/metrics", timeout=120) as answer:
            assert "odf_up 0.0" in answer.read().decode()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{url}/", timeout=120)
        assert refused.value.code == 404
        refused.value.close()
        with pytest.raises(BadConfig, match="cannot listen"):
            server(ListenAddress("127.0.0.1", listening.server_port), list)
        listening.shutdown()
