"""Styles the audit's page: light and dark, and a colour for each state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Kinds of events and states. Middle tones, which are seen on white and on black.
_COLOURS: Final[Mapping[str, str]] = {
    "partition": "#4c86c6",
    "replica": "#6ea84f",
    "topic": "#d08a3c",
    "broker": "#9a6bc0",
    "controller": "#c4574b",
    "archive": "#3f8f86",
    "New": "#7fb2e5",
    "Online": "#5ea35a",
    "Offline": "#c4574b",
    "NonExistent": "#8a8f98",
    "DeletionStarted": "#d9a036",
    "DeletionSuccessful": "#b0b5bd",
    "DeletionIneligible": "#9a6bc0",
    "created": "#5ea35a",
    "grown": "#3f8f86",
    "growing": "#3f8f86",
    "frozen": "#4c86c6",
    "importing": "#7a6fc0",
    "queued for deletion": "#d9a036",
    "deleting": "#d9a036",
    "halted": "#9a6bc0",
    "absent": "#8a8f98",
    "live": "#5ea35a",
    "gone": "#c4574b",
    "shutting down": "#d9a036",
    "late": "#c4574b",
    "p50_ms": "#2f6fb3",
    "p95_ms": "#6fa5dc",
    "p99_ms": "#b3cfec",
}
_OTHER: Final = "#7b8794"


def colour(name: str) -> str:
    """The colour of a state or of a kind of event."""
    return _COLOURS.get(name, _OTHER)


def kind(name: str) -> str:
    """The class that has this colour."""
    return f"c{list(_COLOURS).index(name)}" if name in _COLOURS else "c"


_RULES: Final = "".join(f".{kind(name)}{{fill:{value}}}" for name, value in _COLOURS.items())

STYLE: Final = (
    """
:root{--ink:#1f2933;--soft:#616e7c;--line:#d9dee5;--page:#f5f7fa;--card:#fff;--good:#2f7d32;
--bad:#b3261e;--badly:#fdecea;--track:#eef1f5}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7eb;--soft:#9aa5b1;--line:#39424e;--page:#14181d;
--card:#1d232b;--good:#81c784;--bad:#f28b82;--badly:#3a2422;--track:#262d37}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;margin:0;background:var(--page);color:var(--ink)}
header,main{max-width:72rem;margin:0 auto;padding:0 1rem}
header{padding-top:1.5rem}main{padding-bottom:3rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.1rem;margin:0}h3{font-size:.95rem;margin:1rem 0 .3rem}
p{margin:.3rem 0}.span,.about,.most{color:var(--soft);font-size:.87rem}
.verdict{font-size:1.05rem;font-weight:600}.verdict.good{color:var(--good)}
.verdict.bad{color:var(--bad)}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(9rem,1fr));gap:.7rem;
margin:1rem 0}
.card,section{background:var(--card);border:1px solid var(--line);border-radius:8px}
.card{padding:.6rem .9rem;font-size:.87rem;color:var(--soft)}
.card b{display:block;font-size:1.5rem;color:var(--ink)}
.card.bad b{color:var(--bad)}.card.good b{color:var(--good)}
section{padding:1rem;margin:1rem 0;overflow:hidden}
section.bad{border-color:var(--bad)}section.bad h2{color:var(--bad)}
.scroll{overflow-x:auto;margin-top:.5rem}
table{border-collapse:collapse;width:100%;font-size:.85rem}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:600;white-space:nowrap}td.t{white-space:nowrap}td.w{min-width:15rem}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
table.matrix{width:auto}td.legal{font-weight:600}
td.bad{background:var(--badly);color:var(--bad);font-weight:700}
svg{display:block;width:100%;background:var(--track);border-radius:3px}
svg.tall{height:150px}svg.bar{height:14px}rect{fill:#7b8794}
.lanes{display:grid;gap:3px;margin-top:.6rem}
.lane{display:grid;grid-template-columns:minmax(6rem,15rem) minmax(0,1fr);gap:.6rem;
align-items:center;font-size:.82rem}
.noted .lane{grid-template-columns:minmax(6rem,19rem) minmax(0,1fr) 15rem}
.label{direction:rtl;text-align:left;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.note{color:var(--soft);text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.axis{display:flex;justify-content:space-between;gap:1rem;color:var(--soft);font-size:.78rem}
.ticks{position:relative;height:1.3em;color:var(--soft);font-size:.78rem}
.ticks span{position:absolute;transform:translateX(-50%);white-space:nowrap}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.82rem;color:var(--soft)}
.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em}
@media(max-width:40rem){.lane{grid-template-columns:6.5rem minmax(0,1fr)}
.noted .lane{grid-template-columns:minmax(0,1fr);gap:.1rem;margin-bottom:.4rem}
.note{text-align:left;white-space:normal}.axis{flex-wrap:wrap;gap:0 1rem}}
"""
    + _RULES
)
