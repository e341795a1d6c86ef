"""Deeds that start jobs: archives, restores, re-partitionings, audits.

Nobody names a path: everything is below the directory of jobs. Names are checked and stand behind
`--`, so that none is taken for an option; the command is a list of arguments, read by no shell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from klamm.console.access.roles import Role
from klamm.console.deeds.deed import Deed, Field, Given, Sheet
from klamm.console.deeds.gate import Acting
from klamm.console.jobs.children import LOCAL, Jobs
from klamm.console.jobs.job import Job
from klamm.console.problems import Problem
from klamm.console.reading.picture import Picture
from klamm.console.showing import twins
from klamm.console.showing.formats import size
from klamm.model.names import name_fault

_MASTER: Final = Field(
    name="master",
    label="Spark",
    required=False,
    default=LOCAL,
    about="on this machine, or a master that the console was started with",
)
_TOPIC: Final = Field(name="topic", label="Topic")
NO_JOBS: Final = "this console has no place for jobs: start it with --jobs-dir DIR"


def _jobs(acting: Acting) -> Jobs:
    if acting.tools.jobs is None:
        raise Problem(422, NO_JOBS)
    return acting.tools.jobs


def _name(text: str) -> str:
    if (fault := name_fault(text)) is not None:
        raise Problem(400, fault, fields=[{"field": "topic", "message": fault}])
    return text


def _words(jobs: Jobs, kind: str, given: Given, id: str) -> tuple[str, ...]:
    """The command of a job."""
    archives = str(jobs.directory / "archives")
    journals = str(jobs.directory / "repartition")
    topic = _name(given["topic"]) if given.get("topic") else ""
    spark = ["--master", given["master"]] if given.get("master") else []
    match kind:
        case "archive":
            verify = ["--verify"] if given["verify"] else []
            return ("archive", "--to", archives, *verify, *spark, "-o", "json", "--", topic)
        case "verify":
            return ("archive", "verify", f"--topic={topic}", *spark, "-o", "json", "--", archives)
        case "restore":
            to = [f"--to={_name(given['to'])}"] if given["to"] else []
            exact = ["--exact"] if given["exact"] else []
            named = ("restore", f"--topic={topic}", *to, *exact)
            return (*named, *spark, "-o", "json", "--", archives)
        case "repartition":
            count = ("--partitions", str(given["partitions"]))
            return ("repartition", *count, "--to", journals, *spark, "-o", "json", "--", topic)
        case "undo":
            return ("repartition", "undo", "--to", journals, "-o", "json", "--", topic)
        case _:
            since = [f"--since={given['since']}"] if given["since"] else []
            judge = spark if given["spark"] else ["--no-spark"]
            place = str(jobs.directory / "audits" / id)
            return ("audit", "--to", place, *since, *judge, "-o", "json")


_TITLES: Final = {
    "archive": "Archive {topic}",
    "verify": "Verify the archive of {topic}",
    "restore": "Restore {topic}",
    "repartition": "Give {topic} {partitions} partitions",
    "undo": "Take the re-partitioning of {topic} back",
    "audit": "Audit the controllers",
}


def _job(acting: Acting, kind: str, given: Given, id: str) -> Job:
    jobs = _jobs(acting)
    return Job(
        id=id,
        kind=kind,
        title=_TITLES[kind].format(**given),
        words=_words(jobs, kind, given, id),
        who=acting.user,
        # What a job changes or reads: two at once about one topic would be in each other's way.
        topic=given.get("to") or given.get("topic"),
        offline=kind == "verify",
        report=f"audits/{id}/audit.html" if kind == "audit" else None,
    )


_STEPS: Final = {
    "archive": "every record is read and written to Parquet files with a digest of each partition",
    "verify": "every file is read back and compared with its manifest",
    "restore": "the archive is checked, then its records are written to the topic and compared",
    "repartition": "records go to a new topic, the order of every key kept and proven; producers "
    "wait for a moment, then the new topic has the name",
    "undo": "the topic gets the partitions back that it had, if the old one is still kept",
    "audit": "every decision in the ledger is held against the tables of the state machines",
}


def _planned(kind: str) -> Callable[[Acting, Picture, Given], Awaitable[Sheet]]:
    async def plan(acting: Acting, picture: Picture, given: Given) -> Sheet:
        jobs = _jobs(acting)
        job = _job(acting, kind, given, "job")
        sheet = Sheet(title=job.title, button=job.title)
        sheet.steps.append({"label": "does", "text": _STEPS[kind]})
        master = given.get("master") or LOCAL
        if master not in jobs.masters:
            sheet.refused.append(
                f"Spark runs on {' or '.join(jobs.masters)} here; --spark-master adds a master"
            )
        if kind in ("archive", "repartition", "undo"):
            await _look(acting, picture, given["topic"], sheet)
        if kind == "audit":
            if picture.is_klamm is False:
                sheet.refused.append("this cluster keeps no ledger: there is nothing to judge")
            _check_time(given["since"])
        else:
            sheet.steps.append({"label": "below", "text": str(jobs.directory)})
        if kind in ("repartition", "undo"):
            sheet.typed = given["topic"]
            sheet.warnings.append("stop the consumers of the topic first: it waits a minute for it")
        if (fault := jobs.fault(job.topic)) is not None:
            sheet.refused.append(fault)
        sheet.facts = [kind, *job.words]
        return sheet

    return plan


async def _look(acting: Acting, picture: Picture, topic: str, sheet: Sheet) -> None:
    """Refuses a topic that whoever asks may not know of; says how much there is to do."""
    found = (await acting.admin.topics([topic])).get(topic)
    known = picture.topics.get(topic)
    if found is None or found.error_code or known is None:
        sheet.refused.append(f"there is no topic {topic!r}")
        return
    records, stored = picture.records(known), picture.size(known)
    told = "an unknown number of records" if records is None else f"{records:,} records at most"
    sheet.steps.append({"label": "of", "text": f"{told}, {size(stored)} with all copies"})


def _check_time(text: str | None) -> None:
    if not text:
        return
    try:
        datetime.fromisoformat(text)
    except ValueError:
        message = "is not a time such as 2026-11-15T08:30"
        fields = [{"field": "since", "message": message}]
        raise Problem(400, f"since {message}", fields=fields) from None


def _started(kind: str) -> Callable[[Acting, Picture, Given], Awaitable[str]]:
    async def do(acting: Acting, _: Picture, given: Given) -> str:
        jobs = _jobs(acting)
        job = _job(acting, kind, given, jobs.new_id())
        jobs.start(job)
        return f"{job.title}: job {job.id} has been taken"

    return do


def _twin(kind: str) -> Callable[[Given], str]:
    def twin(given: Given) -> str:
        name = given.get("topic") or ""
        master = given.get("master")
        words: list[str | int] = []
        if kind == "audit":
            words = ["audit", "--to", "audit", *([] if given["spark"] else ["--no-spark"])]
            words += ["--since", given["since"]] if given["since"] else []
            return twins.command(*words)
        if master and master != LOCAL and kind != "undo":
            words += ["--master", master]
        match kind:
            case "archive":
                more = ["--verify"] if given["verify"] else []
                return twins.command("archive", "--to", "archives", *more, *words, names=(name,))
            case "verify":
                return twins.command("archive", "verify", "archives", "--topic", name, *words)
            case "restore":
                words += ["--to", given["to"]] if given["to"] else []
                words += ["--exact"] if given["exact"] else []
                return twins.command("restore", "archives", "--topic", name, *words)
            case "repartition":
                more = ["--partitions", str(given["partitions"]), "--to", "repartition"]
                return twins.command("repartition", *more, *words, names=(name,))
            case _:
                return twins.command("repartition", "undo", "--to", "repartition", names=(name,))

    return twin


def _deed(kind: str, title: str, *fields: Field) -> Deed:
    return Deed(
        kind=kind if kind in ("archive", "restore", "repartition", "audit") else f"{kind}-job",
        title=title,
        role=Role.ADMIN,
        fields=fields,
        plan=_planned(kind),
        do=_started(kind),
        twin=_twin(kind),
    )


async def _plan_cancel(acting: Acting, _: Picture, given: Given) -> Sheet:
    job = _jobs(acting).find(given["job"])
    sheet = Sheet(title=f"Cancel: {job.title}", button=f"Cancel {job.title}")
    sheet.steps.append({"label": "ends", "text": "its command; what is whole stays"})
    if job.is_over:
        sheet.refused.append(f"it has ended: {job.state}")
    sheet.facts = [job.id]
    return sheet


async def _cancel(acting: Acting, _: Picture, given: Given) -> str:
    jobs = _jobs(acting)
    await jobs.cancel(given["job"])
    return f"{jobs.find(given['job']).title} is being cancelled"


def _flag(name: str, label: str, *, default: bool = False) -> Field:
    return Field(name=name, label=label, kind="flag", required=False, default=default)


DEEDS: Final = (
    _deed(
        "archive",
        "Archive a topic",
        _TOPIC,
        _flag("verify", "Read it back and compare", default=True),
        _MASTER,
    ),
    _deed("verify", "Verify an archive", _TOPIC, _MASTER),
    _deed(
        "restore",
        "Restore a topic",
        Field(name="topic", label="Topic", about="whose archive"),
        Field(name="to", label="As", required=False, about="another name"),
        _flag("exact", "With the offsets it had"),
        _MASTER,
    ),
    _deed(
        "repartition",
        "Give a topic another number of partitions",
        _TOPIC,
        Field(name="partitions", label="Partitions", kind="number", least=1, most=100_000),
        _MASTER,
    ),
    _deed("undo", "Take a re-partitioning back", _TOPIC),
    _deed(
        "audit",
        "Audit the controllers",
        Field(name="since", label="Since", required=False, about="such as 2026-11-15T08:30"),
        _flag("spark", "With Spark, for a large ledger"),
        _MASTER,
    ),
    Deed(
        kind="cancel-job",
        title="Cancel a job",
        role=Role.ADMIN,
        fields=(Field(name="job", label="Job"),),
        plan=_plan_cancel,
        do=_cancel,
        twin=lambda _: "kill -TERM PID",
    ),
)
