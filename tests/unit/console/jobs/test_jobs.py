"""Jobs are real child processes: they tell how far they are, end, fail, are cancelled, are lost."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the console is not installed: klamm[console]")

from klamm.console.deeds import jobs as deeds
from klamm.console.jobs import children
from klamm.console.jobs.children import RUNNING_MAX, WAITING_MAX, Jobs
from klamm.console.jobs.job import Job
from klamm.console.problems import Problem
from klamm.model.errors import UsageError

TELLS = """
import json, os, sys
for done in (0, 50, 100):
    told = {"what": "reading <b>orders</b>", "done": done, "total": 100, "bytes": done * 7}
    print(json.dumps({"klamm_progress": told}), file=sys.stderr, flush=True)
print("a word for people", file=sys.stderr)
print(json.dumps({"records": 100, "verified": True, "args": sys.argv[1:]}))
"""
WAITS = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(f"child {child.pid}", file=sys.stderr, flush=True)
if "stubborn" in sys.argv: signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""


def made(tmp_path: Path, script: str) -> Jobs:
    program = tmp_path / "program.py"
    program.write_text(script)
    return Jobs(tmp_path / "jobs", ("-b", "here:1"), program=(sys.executable, str(program)))


def job(jobs: Jobs, *words: str, topic: str | None = None, kind: str = "archive") -> Job:
    return Job(
        id=jobs.new_id(),
        kind=kind,
        title=f"{kind} it",
        words=words or ("x",),
        who="ann",
        topic=topic,
    )


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - processes tell no event
            await asyncio.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_job_tells_how_far_it_is_and_leaves_a_proof(tmp_path: Path) -> None:
    jobs = made(tmp_path, TELLS)
    heard: list[int] = []
    jobs.on_change(lambda: heard.append(1))
    mine = job(jobs, "archive", "--", "$(touch x); `id`")
    jobs.start(mine)
    await until(lambda: mine.is_over)
    assert (mine.state, mine.code) == ("done", 0)
    assert mine.steps[-1]["done"] == 100
    assert mine.sentence == "archived 100 records, all read back and compared"
    assert list(mine.said) == ["a word for people"]
    assert mine.result is not None
    # The address of the cluster stands before the names, and a name is one argument as it is.
    assert mine.result["args"] == ["archive", "-b", "here:1", "--", "$(touch x); `id`"]
    assert heard
    await jobs.close()
    again = Jobs(tmp_path / "jobs", ())
    assert again.find(mine.id).sentence == mine.sentence
    await again.close()


async def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    jobs = made(tmp_path, "import sys; print('no such topic', file=sys.stderr); sys.exit(3)")
    mine = job(jobs)
    jobs.start(mine)
    await until(lambda: mine.is_over)
    assert (mine.state, mine.sentence) == ("failed", "no such topic")
    await jobs.close()


async def test_an_audit_that_found_something_is_done_and_has_its_findings(tmp_path: Path) -> None:
    jobs = made(tmp_path, """import sys; print('{"events": 7, "clean": false}'); sys.exit(1)""")
    mine = job(jobs, kind="audit")
    jobs.start(mine)
    await until(lambda: mine.is_over)
    assert (mine.state, mine.sentence) == ("done", "7 decisions judged: look at what was found")
    await jobs.close()


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_cancelled_job_ends_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stubborn: bool
) -> None:
    monkeypatch.setattr(children, "_END_S", 1.0)
    jobs = made(tmp_path, WAITS)
    mine = job(jobs, *(["stubborn"] if stubborn else ["x"]))
    jobs.start(mine)
    await until(lambda: mine.said)
    grandchild = int(mine.said[0].split()[1])
    assert is_alive(grandchild)
    await jobs.cancel(mine.id)
    await until(lambda: mine.ended_ms)
    assert mine.state == "cancelled"
    await until(lambda: not is_alive(grandchild))
    with pytest.raises(Problem, match="has ended"):
        await jobs.cancel(mine.id)
    await jobs.close()


async def test_a_console_that_ends_takes_its_jobs_along_and_the_next_one_says_so(
    tmp_path: Path,
) -> None:
    jobs = made(tmp_path, WAITS)
    mine = job(jobs)
    jobs.start(mine)
    await until(lambda: mine.said)
    grandchild = int(mine.said[0].split()[1])
    with pytest.raises(UsageError, match="another console uses"):
        Jobs(tmp_path / "jobs", ())
    await jobs.close()
    await until(lambda: not is_alive(grandchild))
    again = Jobs(tmp_path / "jobs", ())
    assert again.find(mine.id).state == "lost"
    await again.close()


async def test_jobs_wait_their_turn_and_a_full_queue_takes_no_more(tmp_path: Path) -> None:
    jobs = made(tmp_path, WAITS)
    every = [job(jobs, topic=f"t-{n}") for n in range(RUNNING_MAX + WAITING_MAX)]
    for each in every:
        jobs.start(each)
    await until(lambda: sum(bool(each.said) for each in every) == RUNNING_MAX)
    assert [each.state for each in every].count("waiting") == WAITING_MAX
    with pytest.raises(Problem, match="wait already"):
        jobs.start(job(jobs))
    await jobs.cancel(every[-1].id)
    assert every[-1].state == "cancelled"
    with pytest.raises(Problem, match="another job is about t-0"):
        jobs.start(job(jobs, topic="t-0"))
    await jobs.close()
    # A turn that becomes free at the end begins nothing.
    assert sum(bool(each.began_ms) for each in every) == RUNNING_MAX


async def test_state_files_and_reports_of_others_are_not_believed(tmp_path: Path) -> None:
    first = Jobs(tmp_path / "jobs", ())
    state = tmp_path / "jobs" / "state"
    secret = tmp_path / "secret"
    secret.write_text("a secret")
    good = job(first, kind="audit")
    for number, report in enumerate(("../secret", str(secret), "audits/link")):
        id = f"{number:012x}"
        told = good.kept() | {"id": id, "report": report, "state": "done"}
        (state / f"{id}.json").write_text(json.dumps(told))
    (tmp_path / "jobs" / "audits").mkdir()
    os.symlink(secret, tmp_path / "jobs" / "audits" / "link")
    (state / "notanid.json").write_text("{}")
    (state / ("a" * 12 + ".json")).write_text("[" * 100_000)
    os.symlink(secret, state / ("b" * 12 + ".json"))
    await first.close()
    jobs = Jobs(tmp_path / "jobs", ())
    assert len(jobs.all()) == 3
    for each in jobs.all():
        with pytest.raises(Problem, match="not there"):
            jobs.report(each)
    await jobs.close()


@pytest.mark.parametrize("name", ["-x", "list", "undo", "--to=/etc", "verify"])
async def test_no_name_is_taken_for_an_option_or_a_command(tmp_path: Path, name: str) -> None:
    jobs = Jobs(tmp_path, ())
    given = {"topic": name, "to": None, "verify": True, "exact": False, "partitions": 3}
    given |= {"since": None, "spark": False, "master": "local[*]"}
    for kind in ("archive", "repartition", "verify", "restore", "undo"):
        if name.startswith("--"):
            with pytest.raises(Problem, match="invalid"):
                deeds._words(jobs, kind, given, "id")
            continue
        words = deeds._words(jobs, kind, given, "id")
        first = 2 if kind in ("verify", "undo") else 1
        named = [word for word in words[first:] if word in (name, f"--topic={name}")]
        assert len(named) == 1
        assert named[0].startswith("--topic=") or words.index("--") < words.index(named[0], first)
    await jobs.close()
