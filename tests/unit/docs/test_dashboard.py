"""The dashboard and the alerts ask for metrics that brokers have."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
sys.path.insert(0, str(TOOLS))

import generate_dashboard as made  # noqa: E402

PAGE = TOOLS.parent / "docs" / "reference" / "metrics.md"
# A row of the reference, which a test holds to a real broker.
ROW = re.compile(r"^\| `(klamm_\w+)` \| ([\w, ]+) \| (histogram)?", re.MULTILINE)
KNOWN = {
    f"{name}{end}": {*labels.split(", "), *(["le"] if kind else [])}
    for name, labels, kind in ROW.findall(PAGE.read_text())
    for end in (("_bucket", "_count", "_sum") if kind else ("",))
}
QUERIES = [query for panel in made.PANELS for query, _ in panel.queries]
QUERIES += [alert.when for alert in made.ALERT_RULES]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_asks_for_what_there_is(query: str) -> None:
    names = re.findall(r"klamm_\w+", query)
    assert names
    for name in names:
        assert name in KNOWN
    for wanted in re.findall(r"by \(([\w, ]+)\)", query):
        assert set(wanted.split(", ")) <= KNOWN[names[0]]


def test_legends_name_labels_that_the_query_keeps() -> None:
    for panel in made.PANELS:
        for query, legend in panel.queries:
            kept = {
                label for by in re.findall(r"by \(([\w, ]+)\)", query) for label in by.split(", ")
            }
            assert set(re.findall(r"{{(\w+)}}", legend)) <= kept


def test_the_files_are_not_stale() -> None:
    tool = [sys.executable, str(TOOLS / "generate_dashboard.py"), "--check"]
    ran = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_panels_do_not_lie_on_each_other() -> None:
    panels = json.loads(made.DASHBOARD.read_text())["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels) == len(made.PANELS)
