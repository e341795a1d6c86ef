"""The parts of the console that only compute."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("jinja2", reason="the console is not installed: klamm[console]")

from klamm.broker.api.states import machines
from klamm.console.access.roles import Role
from klamm.console.access.sessions import (
    IDLE_S,
    SESSIONS_MAX,
    TRIES_MAX,
    TRIES_OF_USER_MAX,
    Sessions,
)
from klamm.console.feed import stream
from klamm.console.feed.differing import SAME, difference
from klamm.console.feed.stream import Hub
from klamm.console.reading import asking, governor
from klamm.console.reading.folding import Judge
from klamm.console.reading.picture import Partition, Source, pictured
from klamm.console.showing import formats, pages, paths, remedies, rendering, twins
from klamm.console.showing.layouts import placed
from klamm.console.views.records import file_name
from klamm.controller.events import Obstacle

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4)
        | st.lists(
            st.fixed_dictionaries({"id": st.integers(0, 9), "v": inner}),
            max_size=4,
            unique_by=lambda item: item["id"],
        )
    ),
    max_leaves=20,
)


def patched(before: Any, change: Any) -> Any:
    """What static/patch.js does."""
    if "$set" in change:
        return change["$set"]
    if "$items" in change:
        known = {str(item["id"]): item for item in before}
        for id, step in change["$items"].items():
            known[id] = patched(known.get(id), step)
        order = change.get("$order", [item["id"] for item in before])
        return [known[str(id)] for id in order]
    after = dict(before)
    for name, step in change.items():
        if step is None:
            del after[name]
        else:
            after[name] = patched(after.get(name), step)
    return after


@given(JSON, JSON)
def test_a_difference_turns_one_value_into_the_other(before: Any, after: Any) -> None:
    change = difference(before, after)
    found = before if change is SAME else patched(before, json.loads(json.dumps(change)))
    assert found == after


def test_a_small_change_of_a_long_list_is_small() -> None:
    before = [{"id": n, "cells": "." * 10} for n in range(2_000)]
    after = [dict(item) for item in before]
    after[7]["cells"] = "x"
    assert difference(before, after) == {"$items": {"7": {"cells": {"$set": "x"}}}}


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12))
def test_a_twin_is_one_word_for_a_shell_whatever_it_is(name: str) -> None:
    said = subprocess.run(
        ["bash", "-c", f"printf %s {twins.quoted(name)}"], capture_output=True, check=True
    )
    assert said.stdout == name.encode()


def test_a_name_that_looks_like_an_option_stands_behind_dashes() -> None:
    assert twins.command("topics", "delete", names=("-rf",)) == "klamm topics delete -- -rf"
    assert shlex.split(twins.command("story", names=("a b",)))[-1] == "a b"


def test_every_obstacle_of_the_controller_has_its_words() -> None:
    assert {str(each) for each in Obstacle} <= remedies.REMEDIES.keys()


def test_every_state_has_a_place_and_none_lies_on_another() -> None:
    for machine in machines():
        drawn = placed(machine)
        spots = {(node["x"], node["y"]) for node in drawn["nodes"]}
        assert len(spots) == len(machine["states"])
        assert all(x + drawn["node_width"] <= drawn["width"] for x, _ in spots)
        assert all(y + drawn["node_height"] <= drawn["height"] for _, y in spots)
        known = {node["state"] for node in drawn["nodes"]}
        assert {t["before"] for t in machine["transitions"]} <= known


def line(subject: str, before: str, after: str, epoch: int = 1) -> dict[str, Any]:
    return {"subject": subject, "before": before, "after": after, "controller_epoch": epoch}


def test_each_move_of_the_tables_is_legal_and_others_are_not() -> None:
    subjects = {"topic": "topic T", "partition": "T-0", "replica": "T-0 on broker 1"}
    for machine in machines():
        for move in machine["transitions"]:
            told = line(subjects[machine["entity"]], move["before"], move["after"])
            assert Judge(machines()).fault(told) is None
    judge = Judge(machines())
    assert "not in the table" in (judge.fault(line("T-0", "Online", "New")) or "")
    assert judge.fault(line("T-0 ISR", "1,2", "1")) is None, "a fact and no move"
    judge = Judge(machines())
    assert judge.fault(line("T-0", "New", "Online")) is None
    assert "ended at Online" in (judge.fault(line("T-0", "Offline", "Online")) or "")
    assert judge.fault(line("T-0", "Online", "Offline", epoch=2)) is None, "another term"


def partition(**wishes: Any) -> Partition:
    usual: dict[str, Any] = {
        "index": 0,
        "state": "Online",
        "leader": 1,
        "leader_epoch": 0,
        "replicas": (1, 2, 3),
        "isr": (1, 2),
        "replica_states": ("Online", "Online", "Online"),
    }
    return Partition(**usual | wishes)


@pytest.mark.parametrize(
    ("state", "wishes", "cells", "square"),
    [
        ("created", {}, "L.~", "~"),
        ("created", {"adding": (3,)}, "L.+", "+"),
        ("created", {"replica_states": ("Online", "Offline", "Online")}, "Lx~", "x"),
        ("halted", {"replica_states": ("DeletionSuccessful", "Offline", "New")}, "o!-", "!"),
        ("created", {"isr": (1, 2, 3)}, "L..", "."),
        ("created", {"isr": (1, 2, 3), "leader": -1}, "...", "x"),
    ],
)
def test_a_cell_says_where_a_replica_is(
    state: str, wishes: dict[str, Any], cells: str, square: str
) -> None:
    topic = pictured("T", "id", state, [partition(**wishes)], internal=False)
    assert (topic.cells[0], topic.squares) == (cells, square)


def test_a_source_keeps_below_its_share_and_answers_at_once_after_a_quiet_time() -> None:
    source = Source("status")
    now = worked = 0.0
    for _ in range(500):
        governor.measured(source, 0.050, now)
        worked += 0.050
        now += 0.050 + governor.pause_s(source, 0.2)
    assert worked / now < governor.SHARES["status"] * 1.3
    now += 300
    governor.measured(source, 0.050, now)
    assert governor.pause_s(source, 0.2) == 0.2
    assert pytest.approx(0.02) == governor.SHARE_ALL


def test_the_share_that_is_shown_is_that_of_the_last_minute() -> None:
    source = Source("status")
    for second in range(300):
        governor.measured(source, 0.006, float(second))
    assert 0.005 < governor.share(source) < 0.007
    # One answer that took long after two quick questions is not most of a broker's time.
    slow = Source("status")
    for now in (0.0, 0.1, 1.0):
        governor.measured(slow, 0.6, now)
    assert governor.share(slow) < 0.05


def test_what_cannot_be_seen_is_made_visible() -> None:
    assert formats.shown("a\x00\x1bb\u202e\u200b\ud800") == "a␀␛b[U+202E][U+200B][U+D800]"


def test_markup_in_values_and_addresses_stays_text() -> None:
    evil = {"name": "<script>alert(1)</script>", "link": 'x" onclick="alert(1)'}
    assert "<script>" not in pages.bound("td", evil, "name")
    attributes = pages.bind("", evil, href="=/topics/{name}", data_x="link")
    assert "<" not in attributes
    assert 'onclick="' not in attributes


def test_sessions_are_bounded_end_when_idle_and_passwords_are_not_tried_for_long() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    first = sessions.begin(Role.VIEWER)
    assert sessions.find(first.id) is first
    assert first.is_token(first.token)
    assert not first.is_token("é")
    for _ in range(SESSIONS_MAX):
        sessions.begin(Role.VIEWER)
    assert sessions.find(first.id) is None
    assert len(sessions) == SESSIONS_MAX
    last = sessions.begin(Role.VIEWER)
    now[0] += IDLE_S + 1
    assert sessions.find(last.id) is None
    tries = [sessions.may_try("10.0.0.1", "ann") for _ in range(TRIES_MAX + 1)]
    assert tries == [True] * TRIES_MAX + [False]
    assert sessions.may_try("10.0.0.2", "bob")
    others = [sessions.may_try(f"10.0.1.{n}", "ann") for n in range(TRIES_OF_USER_MAX)]
    assert others == [True] * (TRIES_OF_USER_MAX - TRIES_MAX) + [False] * TRIES_MAX
    assert sessions.may_try("10.0.0.3", "bob")


def test_scripts_and_styles_stay_within_their_budget_and_make_no_markup() -> None:
    contents = pages.static_files()
    scripts = b"".join(content for name, content in contents.items() if name.endswith(".js"))
    assert len(scripts) <= 120_000
    assert len(contents["k.css"]) <= 30_000
    for word in (
        rb"innerHTML",
        rb"outerHTML",
        rb"insertAdjacentHTML",
        rb"\beval\(",
        rb"document\.write",
    ):
        assert not re.search(word, scripts)
    for path in (pages._HERE / "templates").iterdir():
        text = path.read_text()
        assert "|safe" not in text
        assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", text), path.name


def test_the_colours_are_those_of_the_table() -> None:
    css = pages.static_files()["k.css"].decode()
    light = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", css.split("@media")[0]))
    dark = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", css.split('[data-theme="dark"]')[1]))
    for theme in (light, dark):
        for name, least in (("ink", 12), ("dim", 6), ("accent", 6), ("bad", 7), ("good", 6)):
            assert contrast(theme[name], theme["page"]) >= least - 0.05, name
        for cell in ("leader", "insync", "behind", "new", "offline", "leaving", "cannot"):
            assert contrast(theme[f"cell-{cell}"], theme[f"ink-{cell}"]) >= 4.5, cell


def contrast(one: str, other: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("$.a == 1", True),
        ("$.a == '1'", False),
        ("$.b[1].c contains 'ell'", True),
        ("$.b[*].c == 'hello' and not $.x", True),
        ("$.x or ($.a < 2 and $.a >= 1)", True),
        ("$.t == true", True),
        ("$.a == true", False),
        ("$.n == null", True),
        ("$.*.c", False),
        ("$", True),
    ],
)
def test_a_path_chooses_records(text: str, fits: bool) -> None:
    value = {"a": 1, "b": [{"c": "x"}, {"c": "hello"}], "t": True, "n": None}
    assert paths.compiled(text)(value) is fits


@given(st.text(max_size=40))
def test_no_text_breaks_the_language_of_paths(text: str) -> None:
    try:
        test = paths.compiled(text)
    except paths.PathError:
        return
    assert test({"a": [1]}) in (True, False)


def test_a_path_is_bounded() -> None:
    for text in ("not " * 90 + "$.a", "(" * 60 + "$.a" + ")" * 60, "$.a == 1 or " * 60 + "$.b"):
        with pytest.raises(paths.PathError):
            paths.compiled(text)


async def test_what_changes_right_after_a_pulse_is_not_held_up_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    value = {"n": 0}
    revision = 0
    hub = Hub(lambda: revision)
    frames = hub.frames([("w", lambda: dict(value))], None, lambda: ({}, object()), asyncio.Event())
    await anext(frames)  # the whole view: now the viewer waits its pace
    hub.stir()
    assert b"pulse" in await asyncio.wait_for(anext(frames), 10)  # a pulse alone
    value["n"], revision = 1, 1
    (watch,) = hub._watches.values()
    assert watch.renew(revision, watch.due)
    hub.stir()
    monkeypatch.setattr(stream, "_PACE_S", 3600.0)  # whoever waits a pace now waits too long
    assert b'{"n":{"$set":1}}' in await asyncio.wait_for(anext(frames), 30)
    await frames.aclose()


def test_those_who_have_not_signed_in_put_nobody_out_who_has() -> None:
    sessions = Sessions()
    ann = sessions.begin(Role.ADMIN, "ann")
    for _ in range(SESSIONS_MAX + 10):
        sessions.begin(Role.VIEWER)
    assert sessions.find(ann.id) is ann
    assert len(sessions) == SESSIONS_MAX


@pytest.mark.parametrize(
    ("form", "data", "shown", "fault"),
    [
        ("json", b'{"b":[1,"\xc3\xa9"]}', '{\n  "b": [\n    1,\n    "é"\n  ]\n}', ""),
        ("json", b"[" * 10_000, "[" * 100, "not JSON"),
        ("hex", b"<script>\x00\xff", f"000000  {b'<script>'.hex(' ')} 00 ff", ""),
        ("avro", b"\x00\x00", "\x00\x00", "no registry: start the console with --registry URL"),
        ("text", b"\xff\xfe", "ff fe", ""),
        ("text", None, None, ""),
    ],
)
def test_values_are_shown_in_the_form_that_was_asked_for(
    form: str, data: bytes | None, shown: str | None, fault: str
) -> None:
    found, why = rendering.rendered(data, 100, form, None)
    assert why == fault
    if form == "hex":
        assert found is not None
        assert found.startswith(shown or "")
        assert found.endswith("<script>..")
    else:
        assert found == shown


@pytest.mark.parametrize("topic", ['a"b', "../x", "a\r\nset-cookie: x", "..", "", "é", "x" * 300])
def test_the_name_of_a_download_can_end_no_header_and_leave_no_directory(topic: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_]{1,100}-0-7\.bin", file_name(topic, 0, 7))


def test_a_wait_for_a_replica_ends_with_the_news_that_it_is_in_sync() -> None:
    def topic(*isr: int) -> dict[str, Any]:
        one = Partition(
            index=0,
            state="Online",
            leader=0,
            leader_epoch=1,
            replicas=(0, 1),
            isr=isr,
            replica_states=("Online", "Online"),
        )
        return {"orders": pictured("orders", "id", "created", [one], internal=False)}

    waiting = [{"what": what, "partition": 0, "broker": 1} for what in ("replication", "deletion")]
    waits = [
        {"topic": "orders", "waiting": waiting[:1]},
        {"topic": "orders", "waiting": waiting[1:]},
        {"topic": "unknown", "waiting": waiting[:1]},
    ]
    assert asking.still_waiting(waits, topic(0)) == waits
    assert asking.still_waiting(waits, topic(0, 1)) == waits[1:]
