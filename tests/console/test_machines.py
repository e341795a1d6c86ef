"""The drawings, driven by a script: every move of the tables, illegal ones, long stories."""

from __future__ import annotations

from typing import Any

import pytest

from console.browsing import asked, live
from klamm.cluster import Cluster

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=30_000)

MODULE = "import(new URL('{}', document.querySelector('script[type=module]').src))"


def test_each_move_of_the_tables_lights_its_edge_and_an_illegal_one_stays(
    cluster: Cluster, console: str, page: Any
) -> None:
    cluster.create_topic("drawn", partitions=1, replication_factor=2)
    machines = asked(f"{console}/api/machines")["items"]
    counts = {machine["entity"]: len(machine["transitions"]) for machine in machines}
    assert (counts["partition"], counts["replica"]) >= (8, 14)
    live(page, f"{console}/topics/drawn")
    expect(page.locator(".machine svg")).to_be_visible()
    unlit = page.evaluate(
        f"""async (machines) => {{
          const {{ drawing, run }} = await {MODULE.format("./machine.js")};
          const bad = [];
          for (const machine of machines) {{
            const drawn = drawing(machine);
            document.querySelector(".machine").replaceChildren(drawn.root);
            for (const move of machine.transitions) {{
              run(drawn, move.before, move.after, null);
              const edge = drawn.edges.get(move.before + ">" + move.after);
              if (!edge?.classList.contains("lit")) bad.push([machine.entity, move]);
            }}
            if (drawn.root.querySelector(".illegal")) bad.push([machine.entity, "illegal"]);
          }}
          return bad;
        }}""",
        machines,
    )
    assert unlit == []
    page.evaluate(
        f"""async (machine) => {{
          const {{ drawing, run }} = await {MODULE.format("./machine.js")};
          const drawn = drawing(machine);
          document.querySelector(".machine").replaceChildren(drawn.root);
          run(drawn, machine.nodes[0].state, machine.nodes.at(-1).state, "not in the table");
        }}""",
        next(machine for machine in machines if machine["entity"] == "replica"),
    )
    expect(page.locator(".machine .edge.illegal")).to_have_count(1)
    expect(page.locator(".machine .dot")).to_have_count(0)


def test_a_story_of_ten_thousand_lines_is_bounded(console: str, page: Any) -> None:
    live(page, console)
    told = page.evaluate(
        f"""async () => {{
          const {{ lanesOf, matrixAt }} = await {MODULE.format("./story.js")};
          const lines = Array.from({{ length: 10000 }}, (_, n) => ({{
            id: `1.${{n}}`, subject: `big-${{n % 900}} on broker ${{n % 3}}`, before: "New",
            after: n % 2 ? "Online" : "Offline", cause: "x", time_ms: n }}));
          const began = performance.now();
          const lanes = lanesOf(lines);
          const states = new Map(lines.map((line) => [line.subject, line.after]));
          const then = matrixAt(states, "big");
          return {{ lanes: lanes.length, took: performance.now() - began,
                    rows: then[0].querySelectorAll("tbody tr").length, rest: then.length }};
        }}"""
    )
    assert (told["lanes"], told["rows"], told["rest"]) == (200, 100, 2)
    assert told["took"] < 5_000
