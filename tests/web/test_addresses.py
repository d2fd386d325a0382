"""Whatever somebody types into an address or sends to it: the console answers, and never by a failure of its own."""

from __future__ import annotations

import random
import re
from pathlib import Path
from urllib.parse import quote, urlencode

from opendataflow.store import open_store
from tests.support.console import console, csrf_of, routes
from tests.web.test_api import fill

STRANGE = [
    *("", " ", "\x00", "a\x00b", "0", "-1", "99999999999999999999", "1e9", "NaN", "٣", "é", "\U0001f600", "\u202e"),
    *("..", "../..", "<b>", "'", '"', "%", "\\", "x" * 300, "//evil.example", "javascript:1", ":", "1..", "..1"),
    *("2025-11-01", "2025-13-45", "0001-01-01", "9999-12-31", "2025-11-01..2025-11-05", "yesterday", "2h", "99999d"),
    *("raw", "raw:1", "product", "make", "run 1", "FAILED", "failed", "job:make", "dataset:raw", "unlimited", "true"),
]
NAMES = [
    *("dataset", "dataid", "job", "status", "from", "to", "text", "start", "since", "until", "by", "n", "before"),
    *("after", "q", "go", "node", "around", "depth", "not_well", "part", "version", "position", "lines", "search"),
    *("kind", "cause", "downstream_of", "upstream_of", "next", "why", "all", "stale", "pool", "slots", "run", "at"),
]
BODIES = [b"", b"\xff\xfe", b"{}", b"[]", b"null", b'"x"', b"csrf=%ff&why=%00", b"{" * 5000]
KINDS = ["application/json", "text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ""]
ROUNDS = 6


def test_no_address_ends_in_a_failure_of_ours(tmp_path: Path, store_url: str) -> None:
    with open_store(store_url, create=True) as store:
        fill(store)
    client, choose = console(tmp_path, store_url), random.Random(5)
    verbs = ["resubmit", "hold", "fail", "recall", "rollback", "cancel", "pause", "pool", "recover", "nope"]

    def filled(path: str) -> str:
        def value(found: re.Match[str]) -> str:
            known = (
                verbs if found[1] == "verb" else ["1", "2"] if "run" in found[1] else ["raw", "product", "make", "1"]
            )
            return quote(choose.choice([*known, choose.choice(STRANGE)]), safe="")

        return re.sub(r"\{(\w+)(?::\w+)?\}", value, path)

    for method, path in routes():
        if path == "/live":
            continue
        token = csrf_of(client) if method == "POST" else ""
        for _ in range(ROUNDS):
            address = filled(path)
            asked = [(choose.choice(NAMES), choose.choice(STRANGE)) for _ in range(choose.randint(0, 4))]
            if method == "GET":
                told = [client.get(f"{address}?{urlencode(asked)}", follow_redirects=False)]
            else:
                headers = {"x-odf-csrf": token, "content-type": choose.choice(KINDS)}
                told = [
                    client.post(address, data=dict(asked) | {"csrf": token}, follow_redirects=False),
                    client.post(address, content=choose.choice(BODIES), headers=headers, follow_redirects=False),
                ]
            for each in told:
                assert each.status_code < 500, (method, address, asked, client.said[-2:])  # type: ignore[attr-defined]
