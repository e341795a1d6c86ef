"""Jobs: what runs, how far it is, what came of it."""

from __future__ import annotations

import json
from typing import Any, Final

from klamm.console.access.roles import Role
from klamm.console.deeds.jobs import NO_JOBS
from klamm.console.jobs.children import RUNNING_MAX, Jobs
from klamm.console.jobs.job import Job
from klamm.console.params import Param
from klamm.console.problems import Problem
from klamm.console.scene import Ask, Json, Scene, View
from klamm.console.showing import twins

_VALUE_MAX: Final = 500


def _admit(scene: Scene) -> None:
    """Jobs name topics and hold reports about all of them."""
    if scene.role < Role.OPERATOR:
        raise Problem(
            403, "jobs are shown to operators and admins", needed="operator", role=scene.role.word
        )


def _shown(scene: Scene, job: Job) -> bool:
    return job.topic is None or scene.may_know(job.topic)


def jobs(scene: Scene, ask: Ask) -> Json:
    """Every job that is remembered, the newest first."""
    _admit(scene)
    kept = scene.tools.jobs
    found = [] if kept is None else [job for job in kept.all() if _shown(scene, job)]
    return {
        "items": [_row(job) for job in found[: ask["limit"]]],
        "total": len(found),
        "ready": kept is not None,
        "why_not": "" if kept is not None else NO_JOBS,
        "below": "" if kept is None else str(kept.directory),
        "masters": [] if kept is None else list(kept.masters),
        "at_once": RUNNING_MAX,
    }


def _row(job: Job) -> Json:
    step = job.steps[-1] if job.steps else None
    return {
        "id": job.id,
        "title": job.title,
        "kind": job.kind,
        "topic": job.topic,
        "who": job.who,
        "state": job.state,
        "look": {"done": "good", "failed": "bad", "lost": "bad"}.get(job.state, ""),
        "sentence": job.sentence,
        "made_ms": job.made_ms,
        "began_ms": job.began_ms,
        "ended_ms": job.ended_ms,
        "took_s": _took_s(job),
        "share": _share(step) if not job.is_over else None,
        "done": step["done"] if step else None,
        "of": step["total"] if step else None,
        "bytes": step["bytes"] if step else None,
        "running": not job.is_over,
        "deed": {"kind": "cancel-job", "job": job.id},
    }


def _share(step: Json | None) -> float | None:
    return min(1.0, step["done"] / step["total"]) if step and step["total"] > 0 else None


def _took_s(job: Job) -> float | None:
    if job.began_ms is None or job.ended_ms is None:
        return None
    return (job.ended_ms - job.began_ms) / 1000


def _kept(scene: Scene) -> Jobs:
    if scene.tools.jobs is None:
        raise Problem(404, NO_JOBS)
    return scene.tools.jobs


def found_job(scene: Scene, id: str) -> Job:
    """One job, for whoever may see it."""
    _admit(scene)
    job = _kept(scene).find(id)
    if not _shown(scene, job):
        raise Problem(404, f"there is no job {id!r}")
    return job


def job(scene: Scene, ask: Ask) -> Json:
    """One job: its steps, its proof, what it said."""
    found = found_job(scene, ask["job"])
    result = found.result or {}
    return {
        **_row(found),
        "name": found.title,
        "command": found.twin,
        "code": found.code,
        "steps": [
            {"id": str(n), **step, "share": _share(step)} for n, step in enumerate(found.steps)
        ],
        "proof": [
            {"id": name, "name": name, "value": _text(value)} for name, value in result.items()
        ],
        "said": [{"id": str(n), "line": line} for n, line in enumerate(found.said)],
        "report": found.state == "done" and found.report is not None,
    }


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]} ..."


VIEWS: Final = (
    View(
        name="jobs",
        title="Jobs",
        path="/jobs",
        build=jobs,
        twin=lambda _: twins.command("archive", "list", "archives"),
        params=(Param(name="limit", about="rows", kind="number", default=50, least=1, most=100),),
        about="Archives, restores, re-partitionings and audits: how far they are, their proof.",
    ),
    View(
        name="job",
        title="Job",
        path="/jobs/{job}",
        build=job,
        twin=lambda _: twins.command("archive", "list", "archives"),
        params=(Param(name="job", about="a job's id", in_path=True),),
        about="One job: its steps, its proof, and what it said.",
    ),
)
