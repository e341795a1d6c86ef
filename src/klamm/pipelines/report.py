"""The audit as one page of HTML that needs nothing else: styles and drawings are inside."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from klamm.pipelines.audit import Audit

_COLOURS: Final[Mapping[str, str]] = {
    "partition": "#3b6ea5",
    "replica": "#7fa650",
    "topic": "#c8873b",
    "broker": "#8c5fa8",
    "controller": "#b5473c",
    "other": "#999999",
    "NonExistent": "#dddddd",
    "New": "#9cc3e6",
    "Online": "#7fa650",
    "Offline": "#b5473c",
    "DeletionStarted": "#e0a030",
    "DeletionSuccessful": "#bbbbbb",
    "DeletionIneligible": "#8c5fa8",
    "created": "#7fa650",
    "grown": "#5f9650",
    "queued for deletion": "#e0a030",
    "deleting": "#e0a030",
    "halted": "#8c5fa8",
    "absent": "#dddddd",
    "live": "#7fa650",
    "gone": "#b5473c",
    "shutting down": "#e0a030",
}
_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}table{border-collapse:collapse;width:100%}
th,td{text-align:left;padding:.25em .6em;border-bottom:1px solid #ddd;font-size:.87em}
td.n{text-align:right;font-variant-numeric:tabular-nums}.good{color:#3d7a2a}.bad{color:#b5473c}
.cards{display:flex;gap:1em;flex-wrap:wrap}.card{border:1px solid #ddd;border-radius:6px;
padding:.6em 1em;min-width:8em}.card b{display:block;font-size:1.5em}svg{width:100%;height:auto}
svg text{font:11px system-ui,sans-serif;fill:#444}
"""
_FAULTS: Final[Mapping[str, str]] = {
    "illegal": "Illegal moves",
    "broken_chains": "Broken chains",
    "lost": "Lost events",
    "stuck": "Stuck deletions",
}
_LANES_MAX: Final = 40
_WIDTH: Final = 960


def render(audit: Audit, *, title: str) -> str:
    """The whole page."""
    verdict = (
        '<p class="good">Every move is one that the tables allow, and nothing is missing.</p>'
        if audit.is_clean
        else '<p class="bad">Something is wrong: see below.</p>'
    )
    span = f"{_time(audit.first_ms)} to {_time(audit.last_ms)} UTC"
    cards = [("events", audit.events)]
    cards += [(label, audit.counts[name]) for name, label in _FAULTS.items()]
    cards.append(("Controllers", audit.counts["epochs"]))
    parts = [
        f"<h1>{html.escape(title)}</h1><p>{span}</p>{verdict}",
        '<div class="cards">' + "".join(map(_card, cards)) + "</div>",
        "<h2>What happened when</h2>" + activity(audit.by_time, audit.first_ms, audit.last_ms),
        "<h2>Who was in which state</h2>" + lanes(audit.rows["timeline"], audit.last_ms),
        "<h2>How long moves took</h2>" + latencies(audit.rows["latency"]),
    ]
    for name, label in _FAULTS.items():
        if audit.counts[name]:
            parts.append(f'<h2 class="bad">{label}</h2>' + _table(audit.rows[name]))
    parts.append("<h2>Controllers</h2>" + _table(audit.rows["epochs"]))
    parts.append("<h2>Latency of each move</h2>" + _table(audit.rows["latency"]))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}'
        f"</title><style>{_STYLE}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _card(card: tuple[str, int]) -> str:
    label, number = card
    bad = number and label in _FAULTS.values()
    return f'<div class="card{" bad" if bad else ""}"><b>{number:,}</b>{html.escape(label)}</div>'


def activity(by_time: Sequence[Mapping[str, Any]], first_ms: int, last_ms: int) -> str:
    """Events over time, stacked by what they are about."""
    height, spans = 160, 60
    totals: dict[int, int] = {}
    for row in by_time:
        totals[row["span"]] = totals.get(row["span"], 0) + row["count"]
    most = max(totals.values(), default=1)
    base: dict[int, float] = {}
    bars = []
    for row in by_time:
        tall = row["count"] / most * (height - 20)
        low = base.get(row["span"], 0.0)
        base[row["span"]] = low + tall
        bars.append(
            f'<rect x="{row["span"] * _WIDTH / spans:.1f}" y="{height - low - tall:.1f}" '
            f'width="{_WIDTH / spans - 2:.1f}" height="{tall:.1f}" fill="{_colour(row["entity"])}">'
            f"<title>{row['count']} {html.escape(row['entity'])}</title></rect>"
        )
    axis = (
        f'<text x="0" y="{height + 14}">{_time(first_ms)}</text>'
        f'<text x="{_WIDTH}" y="{height + 14}" text-anchor="end">{_time(last_ms)}</text>'
        f'<text x="0" y="10">{most} in one span</text>'
    )
    legend = _legend(sorted({row["entity"] for row in by_time}))
    return f'<svg viewBox="0 0 {_WIDTH} {height + 18}">{"".join(bars)}{axis}</svg>{legend}'


def lanes(rows: Sequence[Mapping[str, Any]], end_ms: int) -> str:
    """One lane a topic or partition, coloured by its state."""
    shown = [row for row in rows if row["entity"] in ("topic", "partition", "broker")]
    if not shown:
        return "<p>Nothing to show.</p>"
    names = list(dict.fromkeys(row["subject"] for row in shown))[:_LANES_MAX]
    first = min(row["since_ms"] for row in shown)
    scale = (_WIDTH - 220) / max(end_ms - first, 1)
    drawn = []
    for number, name in enumerate(names):
        top = number * 18
        label = name if len(name) <= 32 else f"{name[:31]}…"
        drawn.append(f'<text x="0" y="{top + 12}">{html.escape(label)}</text>')
        for row in (r for r in shown if r["subject"] == name):
            until = row["until_ms"] if row["until_ms"] is not None else end_ms
            left = 220 + (row["since_ms"] - first) * scale
            wide = max((until - row["since_ms"]) * scale, 1.0)
            drawn.append(
                f'<rect x="{left:.1f}" y="{top + 2}" width="{wide:.1f}" height="13" '
                f'fill="{_colour(row["state"])}"><title>{html.escape(name)}: '
                f"{html.escape(row['state'])} from {_time(row['since_ms'])}</title></rect>"
            )
    legend = _legend(sorted({row["state"] for row in shown if row["subject"] in names}))
    svg = f'<svg viewBox="0 0 {_WIDTH} {len(names) * 18 + 4}">{"".join(drawn)}</svg>'
    return svg + legend


def latencies(rows: Sequence[Mapping[str, Any]]) -> str:
    """Half, 95 % and 99 % of the moves of each kind, on a logarithmic scale."""
    if not rows:
        return "<p>Nothing to show.</p>"
    most = max(max(row["p99_ms"] for row in rows), 1)
    scale = (_WIDTH - 420) / math.log10(most + 10)
    drawn = []
    for number, row in enumerate(rows):
        top = number * 18
        label = f"{row['entity']}: {row['from_state']} → {row['to_state']}"
        drawn.append(f'<text x="0" y="{top + 12}">{html.escape(label)}</text>')
        for mark, colour in (("p99_ms", "#d9e4ef"), ("p95_ms", "#9cc3e6"), ("p50_ms", "#3b6ea5")):
            wide = math.log10(row[mark] + 1) * scale
            drawn.append(
                f'<rect x="320" y="{top + 2}" width="{wide:.1f}" height="13" fill="{colour}"/>'
            )
        told = f"{row['p50_ms']} / {row['p95_ms']} / {row['p99_ms']} ms"
        drawn.append(f'<text x="{_WIDTH}" y="{top + 12}" text-anchor="end">{told}</text>')
    return f'<svg viewBox="0 0 {_WIDTH} {len(rows) * 18 + 4}">{"".join(drawn)}</svg>'


def _legend(names: Iterable[str]) -> str:
    pieces = (
        f'<span style="color:{_colour(name)}">&#9632;</span> {html.escape(name)} &nbsp; '
        for name in names
    )
    return f"<p>{''.join(pieces)}</p>"


def _colour(name: str) -> str:
    return _COLOURS.get(name, "#777777")


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "<p>None.</p>"
    heads = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(_cell(name, value) for name, value in row.items()) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{heads}</tr>{body}</table>"


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "<td></td>"
    if name in ("time_ms", "since_ms", "began_ms", "last_ms"):
        return f"<td>{_time(value)}</td>"
    if isinstance(value, int):
        return f'<td class="n">{value:,}</td>'
    return f"<td>{html.escape(str(value))}</td>"


def _time(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S") + f".{time_ms % 1000:03}"
