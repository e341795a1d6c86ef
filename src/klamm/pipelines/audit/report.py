"""The audit as one page of HTML that needs nothing else: styles and drawings are inside.

It follows the reader's light or dark setting and fits a narrow window: drawings hold only shapes
and stretch with the page, words are HTML beside them and keep their size.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from klamm.controller.states import FOUND, TopicState
from klamm.controller.states.tables import MACHINES
from klamm.model.names import INTERNAL_TOPICS
from klamm.model.text import printable
from klamm.pipelines.audit.findings import STATES_MAX
from klamm.pipelines.audit.report_style import STYLE, colour, kind

if TYPE_CHECKING:
    from klamm.pipelines.audit.findings import Findings

Row = Mapping[str, Any]

_FAULTS: Final[Mapping[str, tuple[str, str]]] = {
    "illegal": ("Illegal transitions", "Transitions that no table of the controller allows."),
    "broken_chains": (
        "Broken chains",
        "Transitions that do not begin where the one before ended: something was not recorded.",
    ),
    "lost": ("Gaps with lost events", "Numbers that are missing from a controller's sequence."),
    "stuck": ("Stuck deletions", "Deletions that do not end, and what they wait for."),
}
_HIDDEN: Final = frozenset(
    {"topic", "topic_id", "entity", "partition", "broker", "controller_id", "edition"}
)
_FIRST: Final = ("subject", "from_state", "to_state", "expected", "why")
_TIMES: Final = frozenset({"time_ms", "since_ms", "began_ms", "ended_ms", "last_ms"})
_SPANS_OF_TIME: Final = frozenset(
    {"quiet_ms", "overtime_ms", "took_ms", "p50_ms", "p95_ms", "p99_ms"}
)
_HEADS: Final[Mapping[str, str]] = {
    "controller_epoch": "epoch",
    "time_ms": "time",
    "since_ms": "since",
    "began_ms": "began",
    "ended_ms": "ended",
    "took_ms": "took",
    "last_ms": "last event",
    "quiet_ms": "silence before",
    "overtime_ms": "overtime",
    "late": "late events",
    "unheard": "lost elections",
    "from_state": "from",
    "to_state": "to",
    "waits_for": "waits for",
    "max_ms": "longest",
    "p50_ms": "median",
    "p95_ms": "95 %",
    "p99_ms": "99 %",
}
_LIFE: Final = (
    FOUND,
    *TopicState,
    "NonExistent",
    "New",
    "Online",
    "Offline",
    "DeletionStarted",
    "DeletionIneligible",
    "DeletionSuccessful",
)
_WORK: Final = {
    "created": "creation",
    str(TopicState.GROWING): "growth",
    str(TopicState.IMPORTING): "import",
    str(TopicState.QUEUED): "deletion",
}
_LANES_MAX: Final = 60
_ROWS_MAX: Final = 100
_WIDE: Final = 1000  # of a drawing's own measure; the page stretches it


def render(audit: Findings, *, title: str) -> str:
    """The whole page."""
    faults = [
        _section(label, about, _table(audit.rows[name], audit.counts[name]), bad=True)
        for name, (label, about) in _FAULTS.items()
        if audit.counts[name]
    ]
    last_ms = audit.last_ms
    sections = [
        *faults,
        _section(
            "Events over time",
            "The number of events, by what they are about.",
            activity(audit.by_time, audit.first_ms, last_ms),
        ),
        _section(
            "States over time",
            "Topics, partitions and brokers, deletions among them, from the first event to the "
            "last; hover over a bar to see its times.",
            lanes(audit.rows["timeline"], audit.first_ms, last_ms),
        ),
        _section(
            "Transitions",
            "How often each transition was made. Dots are transitions that the tables allow.",
            matrices(audit.rows["moves"]),
        ),
        _section(
            "How long work on topics took",
            "From its cause to the last confirmation: a creation until every replica is online, "
            "growing, an import and a deletion until the topic rests again or is gone. The "
            "longest come first.",
            _table(audit.rows["durations"], audit.counts["durations"]),
        ),
        _section(
            "Time before each transition",
            "How long a thing had been in its state when it left it: median, 95 % and 99 %. This "
            "is not how long the transition itself took. The scale is logarithmic.",
            latencies(audit.rows["latency"]),
        ),
        _section(
            "Controllers",
            "Each term, the silence before it, how long a controller wrote after its term, and "
            "how many elections before it left no record.",
            reigns(audit.rows["epochs"], last_ms)
            + _table(audit.rows["epochs"], audit.counts["epochs"]),
        ),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{_words(title)}</title><style>{STYLE}</style></head><body>"
        f"{_header(audit, title)}<main>{''.join(sections)}</main></body></html>\n"
    )


def _header(audit: Findings, title: str) -> str:
    if not audit.events:
        verdict, word = "The ledger is empty: there is nothing to check.", "none"
    elif audit.is_clean:
        verdict = "Every transition is legal, and nothing is missing."
        word = "good"
    else:
        verdict, word = "Something is wrong: see the sections in red.", "bad"
    span = ""
    if audit.events:
        span = f"<p class=span>{_moment(audit.first_ms)} to {_moment(audit.last_ms)} UTC</p>"
    cards = [_card("Events", audit.events, "")]
    cards += [
        _card(label, audit.counts[name], "bad" if audit.counts[name] else "good")
        for name, (label, _) in _FAULTS.items()
    ]
    cards.append(_card("Controllers", audit.counts["epochs"], ""))
    return (
        f"<header><h1>{_words(title)}</h1>{span}"
        f'<p class="verdict {word}">{verdict}</p><div class=cards>{"".join(cards)}</div></header>'
    )


def _card(label: str, number: int, word: str) -> str:
    return f'<div class="card {word}"><b>{number:,}</b>{_words(label)}</div>'


def _section(label: str, about: str, body: str, *, bad: bool = False) -> str:
    return (
        f"<section{' class=bad' if bad else ''}><h2>{_words(label)}</h2>"
        f"<p class=about>{_words(about)}</p>{body}</section>"
    )


def activity(by_time: Sequence[Row], first_ms: int, last_ms: int, spans: int = 60) -> str:
    """Events over time, stacked by what they are about."""
    if not by_time:
        return _nothing()
    totals: dict[int, int] = {}
    for row in by_time:
        totals[row["span"]] = totals.get(row["span"], 0) + row["count"]
    most = max(totals.values())
    height, each = 200, _WIDE / spans
    low: dict[int, float] = {}
    bars = []
    for row in by_time:
        tall = max(row["count"] / most * height, 1.5)
        base = low.get(row["span"], 0.0)
        low[row["span"]] = base + tall
        words = f"{row['count']:,} about a {row['entity']}"
        bars.append(
            _rect(row["span"] * each, height - base - tall, each - 2, tall, row["entity"], words)
        )
    return (
        f"<p class=most>{most:,} events in one bar</p>"
        f"{_drawing(''.join(bars), height, 'tall')}{_axis(first_ms, last_ms)}"
        f"{_legend(sorted({row['entity'] for row in by_time}))}"
    )


def lanes(rows: Sequence[Row], first_ms: int, end_ms: int) -> str:
    """One lane a topic, partition and broker, coloured by its state; internal topics are folded."""
    shown = [row for row in rows if row["entity"] in ("topic", "partition", "broker")]
    if not shown:
        return _nothing()
    own = [row for row in shown if row["topic"] not in INTERNAL_TOPICS]
    internal = [row for row in shown if row["topic"] in INTERNAL_TOPICS]
    drawn = _lanes(own, first_ms, end_ms)
    if internal:
        names = {row["subject"] for row in internal}
        folded = _lanes(internal, first_ms, end_ms)
        told = f"<summary>{len(names):,} internal topics and partitions</summary>"
        drawn += f"<details>{told}{folded}</details>"
    if len(rows) >= STATES_MAX:
        drawn += (
            f"<p class=about>These are the newest {STATES_MAX:,} states; "
            "all are in the table timeline.</p>"
        )
    return drawn + _legend(sorted({row["state"] for row in shown}))


def _lanes(rows: Sequence[Row], first_ms: int, end_ms: int) -> str:
    by_subject: dict[str, list[Row]] = {}
    for row in sorted(rows, key=_lane_order):
        by_subject.setdefault(row["subject"], []).append(row)
    drawn = [
        _lane(name, _lane_bars(name, by_subject[name], first_ms, end_ms))
        for name in list(by_subject)[:_LANES_MAX]
    ]
    left = len(by_subject) - len(drawn)
    more = f"<p class=about>{left:,} more are in the table timeline.</p>" if left > 0 else ""
    return f"<div class=lanes>{''.join(drawn)}{_lane('', _axis(first_ms, end_ms))}</div>{more}"


def _lane_order(row: Row) -> tuple[bool, str, bool, int, int]:
    """Brokers last; within a topic itself, then its partitions."""
    return (
        row["entity"] == "broker",
        row["topic"] or row["subject"],
        row["entity"] == "partition",
        row["partition"] or 0,
        row["since_ms"],
    )


def _lane_bars(name: str, rows: Sequence[Row], first_ms: int, end_ms: int) -> str:
    scale = _WIDE / max(end_ms - first_ms, 1)
    bars = []
    for row in rows:
        until = end_ms if row["until_ms"] is None else row["until_ms"]
        left = (row["since_ms"] - first_ms) * scale
        # A short state is seen too, and one at the very end does not leave the drawing.
        wide = max((until - row["since_ms"]) * scale, 2.0)
        words = f"{name}: {row['state']} from {_moment(row['since_ms'])}"
        bars.append(_rect(min(left, _WIDE - 2), 0, wide, 10, row["state"], words))
    return _drawing("".join(bars), 10, "bar")


def matrices(rows: Sequence[Row]) -> str:
    """From which state to which, one for each state machine."""
    return "".join(
        f"<h3>{m.entity.capitalize()}s</h3>" + _matrix([r for r in rows if r["entity"] == m.entity])
        for m in MACHINES
    )


def _matrix(rows: Sequence[Row]) -> str:
    made = {(row["from_state"], row["to_state"]): row for row in rows}
    states = sorted({state for move in made for state in move}, key=_state_order)
    lines = []
    for before in states:
        cells = "".join(_matrix_cell(made.get((before, after))) for after in states)
        lines.append(f"<tr><th>{_words(before)}</th>{cells}</tr>")
    heads = "".join(f"<th class=n>{_words(state)}</th>" for state in states)
    return (
        "<div class=scroll><table class=matrix>"
        f"<tr><th>from \\ to</th>{heads}</tr>{''.join(lines)}</table></div>"
    )


def _matrix_cell(row: Row | None) -> str:
    if row is None:
        return "<td></td>"
    if not row["legal"]:
        return f'<td class="n bad">{row["count"]:,}</td>'
    return f'<td class="n legal">{row["count"]:,}</td>' if row["count"] else "<td class=n>·</td>"


def _state_order(state: str) -> tuple[int, str]:
    """As a life goes."""
    return (_LIFE.index(state) if state in _LIFE else len(_LIFE)), state


def latencies(rows: Sequence[Row]) -> str:
    """Half, 95 % and 99 % of the moves of each kind, on a logarithmic scale."""
    if not rows:
        return _nothing()
    most = max(10, *(row["p99_ms"] for row in rows))
    scale = _WIDE / math.log10(most + 1)
    drawn = []
    for row in rows:
        bars = "".join(
            _rect(0, 0, max(math.log10(row[mark] + 1) * scale, 2.0), 10, mark, words)
            for mark, words in (("p99_ms", "99 %"), ("p95_ms", "95 %"), ("p50_ms", "half"))
        )
        label = f"{row['entity']}: {row['from_state']} → {row['to_state']}"
        told = " / ".join(_took(row[mark]) for mark in ("p50_ms", "p95_ms", "p99_ms"))
        note = f"{told} · {row['count']:,}"
        drawn.append(_lane(label, _drawing(bars, 10, "bar"), note))
    ticks = [10**power for power in range(math.floor(math.log10(most)) + 1)]
    marks = "".join(
        f'<span style="left:{math.log10(tick + 1) * scale / _WIDE * 100:.1f}%">{_took(tick)}</span>'
        for tick in ticks
    )
    axis = _lane("", f"<div class=ticks>{marks}</div>", "half / 95 % / 99 % · count")
    legend = _legend(["p50_ms", "p95_ms", "p99_ms"])
    return f"<div class='lanes noted'>{''.join(drawn)}{axis}</div>{legend}"


def reigns(rows: Sequence[Row], end_ms: int) -> str:
    """Draws who was the controller when; blank where no controller wrote anything."""
    if not rows:
        return ""
    first_ms = min(row["began_ms"] for row in rows)
    scale = _WIDE / max(end_ms - first_ms, 1)
    by_broker: dict[int, list[Row]] = {}
    for row in rows:
        by_broker.setdefault(-1 if row["controller"] is None else row["controller"], []).append(row)
    drawn = []
    for broker in sorted(by_broker):
        bars = "".join(
            _rect(
                min((row["began_ms"] - first_ms) * scale, _WIDE - 2),
                0,
                max((row["last_ms"] - row["began_ms"]) * scale, 2.0),
                10,
                "late" if row["overtime_ms"] else "live",
                f"epoch {row['controller_epoch']}: {row['events']:,} events "
                f"from {_moment(row['began_ms'])} to {_moment(row['last_ms'])}",
            )
            for row in by_broker[broker]
        )
        drawn.append(_lane(f"broker {broker}", _drawing(bars, 10, "bar")))
    return f"<div class=lanes>{''.join(drawn)}{_lane('', _axis(first_ms, end_ms))}</div>"


def _rect(left: float, top: float, wide: float, tall: float, name: str, words: str) -> str:
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}" '
        f'class="{kind(name)}"><title>{_words(words)}</title></rect>'
    )


def _drawing(shapes: str, height: int, word: str) -> str:
    box = f'viewBox="0 0 {_WIDE} {height}" preserveAspectRatio="none"'
    return f"<svg class={word} {box}>{shapes}</svg>"


def _lane(label: str, body: str, note: str = "") -> str:
    told = f"<span class=note>{_words(note)}</span>" if note else ""
    # Of a name that is too long the style shows the end, which is the partition's number.
    whole = _words(label)
    name = f'<span class=label title="{whole}"><bdi>{whole}</bdi></span>'
    return f"<div class=lane>{name}{body}{told}</div>"


def _axis(first_ms: int, last_ms: int) -> str:
    same_day = _moment(first_ms)[:10] == _moment(last_ms)[:10]
    end = _moment(last_ms)[11:] if same_day else _moment(last_ms)
    return f"<div class=axis><span>{_moment(first_ms)}</span><span>{end}</span></div>"


def _legend(names: Iterable[str]) -> str:
    told = ((colour(name), _words(_HEADS.get(name, name))) for name in names)
    pieces = (f"<span><i style='background:{fill}'></i>{words}</span>" for fill, words in told)
    return f"<p class=legend>{''.join(pieces)}</p>"


def _nothing() -> str:
    return "<p class=about>Nothing to show.</p>"


def _table(rows: Sequence[Row], count: int) -> str:
    if not rows:
        return _nothing()
    names = sorted((name for name in rows[0] if name not in _HIDDEN), key=_column_order)
    heads = "".join(_head(name, rows[0][name]) for name in names)
    body = "".join(
        "<tr>" + "".join(_cell(name, row[name]) for name in names) + "</tr>"
        for row in rows[:_ROWS_MAX]
    )
    left = count - min(len(rows), _ROWS_MAX)
    more = f"<p class=about>{left:,} more are in the table.</p>" if left else ""
    return f"<div class=scroll><table><tr>{heads}</tr>{body}</table></div>{more}"


def _column_order(name: str) -> int:
    """The position of a column: the subject first, the rest in its order."""
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _head(name: str, value: Any) -> str:
    is_number = isinstance(value, int) and name not in _TIMES
    words = _words(_HEADS.get(name, name.replace("_", " ")))
    return f"<th class=n>{words}</th>" if is_number else f"<th>{words}</th>"


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "<td></td>"
    if name in _TIMES:
        return f"<td class=t>{_moment(value)}</td>"
    if name in _SPANS_OF_TIME:
        return f"<td class=n>{_took(value)}</td>"
    if isinstance(value, int):
        return f"<td class=n>{value:,}</td>"
    if name == "what":
        return f"<td>{_words(_WORK.get(value, value))}</td>"
    if name == "subject":
        return f"<td class=t>{_words(value)}</td>"
    if name == "why":
        return f"<td class=w>{_words(value)}</td>"
    return f"<td>{_words(str(value))}</td>"


def _words(text: str) -> str:
    """Text from strangers as HTML shows it: no tag, no quote, nothing that turns the line."""
    return html.escape(printable(text))


def _took(span_ms: int) -> str:
    """A span of time for people."""
    if abs(span_ms) < 1000:
        return f"{span_ms} ms"
    for unit, size in (("s", 1000), ("min", 60_000), ("h", 3_600_000)):
        if abs(span_ms) < 100 * size or unit == "h":
            return f"{span_ms / size:.1f} {unit}"
    raise AssertionError("hours have no end")


def _moment(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S") + f".{time_ms % 1000:03}"
