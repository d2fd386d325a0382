"""The page about monitoring names the figures that there are, and its files are YAML whose expressions use them."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

import opendataflow
from opendataflow.insight.metrics import COUNTER, HISTOGRAM, Metrics

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/how-to/monitoring.md").read_text(encoding="utf-8")


def figures(tmp_path: Path) -> dict[str, str]:
    """The kinds of all figures that are served, by the names that they are served under."""
    with opendataflow.open(f"sqlite:///{tmp_path}/store.db", create=True) as store:
        found = Metrics(lambda: store, "1").once(totals=True)
    return {each.name + ("_total" if each.kind == COUNTER else ""): each.kind for each in found}


def test_every_figure_is_on_the_page_and_no_other(tmp_path: Path) -> None:
    rows = re.findall(r"^\| (`odf_.*?) \|", PAGE, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(odf_\w+)`", row)} == set(figures(tmp_path))


def test_alerts_and_queries_use_figures_that_there_are(tmp_path: Path) -> None:
    known = {
        name + suffix
        for name, kind in figures(tmp_path).items()
        for suffix in (("_bucket", "_sum", "_count") if kind == HISTOGRAM else ("",))
    }
    documents = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
    [rules] = [group["rules"] for document in documents for group in document.get("groups", ())]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    expressions = [rule["expr"] for rule in rules]
    expressions += re.findall(r"`((?:sum|histogram_quantile)\W[^`]*)`", PAGE)
    assert len(expressions) > len(rules)
    for expression in expressions:
        assert set(re.findall(r"odf_\w+", expression)) <= known, expression
        assert all(expression.count(opening) == expression.count(closing) for opening, closing in ("()", "{}", "[]"))
    for rule in rules:
        assert re.fullmatch(r"\d+[mh]", rule["for"])
        assert rule["annotations"]["summary"]
