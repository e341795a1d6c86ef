"""`klamm spark`: a shell, a Spark to share, a check-up, and the way over from Spark's connector."""

from __future__ import annotations

import json
import os
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated, Final

from klamm.cli.options import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_MASTER,
    BootstrapOption,
    MasterOption,
    Output,
    OutputOption,
    new_app,
)
from klamm.cli.output import print_json, say, tell
from klamm.cli.parsing.declared import Argument, Option
from klamm.installing import install_command
from klamm.model.errors import KlammError, UsageError
from klamm.pipelines.session.java import find_java
from klamm.pipelines.session.shared import AUTO, HERE, end, served_spark, serving, shared_spark
from klamm.pipelines.session.versions import is_too_old, shortcomings

app = new_app("PySpark with klamm's data source.")

_STOP_S: Final = 60.0
_SHELL = """
from klamm.pipelines.session.session import say_plainly, start
say_plainly()
spark = start({master!r}, name="klamm shell")
bootstrap = {bootstrap!r}
def topic(name, **options):
    "A topic as a DataFrame."
    from klamm.client.settings import gathered
    reader = spark.read.format("klamm").option("kafka.bootstrap.servers", bootstrap)
    for key, value in gathered({sources!r}).items():
        reader = reader.option("kafka." + key, value)
    return reader.option("subscribe", name).options(**options).load()
print("spark, bootstrap and topic(name) are ready: topic('orders').show()")
"""


@app.command()
def shell(
    master: MasterOption = DEFAULT_MASTER,
    bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Open a Python prompt with Spark and the data source ready.

    `topic('orders')` is a topic of the cluster at the address as a DataFrame.

    Example: klamm spark shell
    """
    from klamm.cli.spark.jobs import connection, need_spark
    from klamm.pipelines.session.session import check_master

    # What is wrong is said before a prompt is there.
    need_spark(master)
    connection(bootstrap_server)
    check_master(master)
    code = _SHELL.format(
        master=master, bootstrap=bootstrap_server.servers, sources=bootstrap_server.sources
    )
    # In the place of this process, which would else hear every Ctrl-C at the prompt, too.
    os.execv(sys.executable, [sys.executable, "-i", "-c", code])


@app.command()
def serve(
    master: Annotated[str, Option(help="where it runs: local[2], spark://host:port")] = HERE,
) -> None:
    """Run a Spark that your commands on this machine share, until Ctrl-C or `klamm spark stop`.

    Commands with work for Spark find it by themselves and need not start one. It listens on
    127.0.0.1 and wants a token, which lies in a file that only you can read.

    Example: klamm spark serve
    """
    from klamm.cli.spark.jobs import interruptible, need_spark
    from klamm.pipelines.session.session import check_master, is_connect, start

    if is_connect(master) or master == AUTO:
        raise UsageError(f"{master} is not a Spark that can be started here: write local[*]")
    need_spark(master)
    check_master(master)
    with interruptible(), serving(master, lambda: start(master, name="klamm spark")) as (own, java):
        say(f"Spark on {own.master} is shared at 127.0.0.1:{own.port} (process {own.pid})")
        say("archive, restore, repartition, table and audit use it; Ctrl-C ends it")
        sys.stdout.flush()
        java.wait()
    raise KlammError("the Java of the shared Spark ended by itself: start it again")


@app.command()
def status(output: OutputOption = Output.TEXT) -> None:
    """Tell about the Spark that `klamm spark serve` runs; exit code 1 where there is none.

    Example: klamm spark status
    """
    found = served_spark()
    if output is Output.JSON:
        print_json(None if found is None else found.told() | {"is_used": shared_spark() == found})
    elif found is None:
        say("no Spark is shared: `klamm spark serve` runs one")
    else:
        say(f"Spark on {found.master} is shared at 127.0.0.1:{found.port} (process {found.pid})")
        if shared_spark() != found:
            say(
                f"it is of klamm {found.version} with {found.python}: commands of this one do "
                "not use it"
            )
    if found is None:
        raise SystemExit(1)


@app.command()
def stop(output: OutputOption = Output.TEXT) -> None:
    """End the Spark that `klamm spark serve` runs.

    Example: klamm spark stop
    """
    found = served_spark()
    if found is None:
        tell(output, {"stopped": None}, "no Spark is shared: there is nothing to stop")
    elif not end(found, _STOP_S):
        raise KlammError(f"process {found.pid} has not ended within {_STOP_S:.0f} s: kill it")
    else:
        tell(output, {"stopped": found.pid}, "the shared Spark has ended")


@app.command()
def doctor(output: OutputOption = Output.TEXT) -> None:
    """Check what Spark needs, and say what is missing.

    Example: klamm spark doctor
    """
    findings = dict(_findings())
    if output is Output.JSON:
        print_json(findings)
    else:
        for subject, fact in findings.items():
            say(f"{subject:10} {fact}")
    if any(fact.startswith("missing") for fact in findings.values()):
        raise SystemExit(1)


def _findings() -> list[tuple[str, str]]:
    found = []
    for package, extra, needed in (
        ("pyspark", "spark", True),
        ("pyarrow", "spark", True),
        ("pandas", "spark", True),
        ("numba", "fast", False),
    ):
        try:
            fact = metadata.version(package)
        except metadata.PackageNotFoundError:
            fact = f"{'missing' if needed else 'absent'}: `{install_command(extra)}`"
        if package == "pyspark" and is_too_old(fact):
            fact = f"missing: {fact} is too old, `{install_command(extra)}`"
        elif package == "pyspark" and fact[0].isdigit():
            fact = "; ".join([fact, *shortcomings(fact)])
        found.append((package, fact))
    return [*found, ("java", _java()), ("kernels", _kernels())]


def _java() -> str:
    try:
        java = find_java()
    except UsageError as fault:
        return f"missing: {fault}"
    return f"{java.version} ({java.origin})"


def _kernels() -> str:
    from klamm.pipelines.records.kernels import kernels

    try:
        return str(kernels().NAME)
    except ImportError as fault:
        return f"missing: {fault.name}, `{install_command('spark')}`"


@app.command("offsets-from-checkpoint")
def offsets_from_checkpoint(
    checkpoint: Annotated[
        Path, Argument(metavar="DIR", help="the checkpoint directory of a query")
    ],
) -> None:
    """Print the last committed offsets of a query, for startingOffsets.

    Also for a checkpoint of Spark's own Kafka connector.

    Example: klamm spark offsets-from-checkpoint /data/checkpoints/query
    """
    say(json.dumps(last_committed(checkpoint), sort_keys=True))


def last_committed(checkpoint: Path) -> dict[str, object]:
    """The offsets after the last micro-batch that was committed."""
    if not checkpoint.is_dir():
        raise UsageError(f"there is no directory {checkpoint}")
    commits = [int(p.name) for p in (checkpoint / "commits").glob("*") if p.name.isdigit()]
    if not commits:
        raise UsageError(f"{checkpoint} is not a checkpoint with a finished micro-batch")
    path = checkpoint / "offsets" / str(max(commits))
    try:
        lines = path.read_text().splitlines()
        # Version, then the query's own metadata, then one line a source.
        sources = [json.loads(line) for line in lines[2:] if line.startswith("{")]
    except (OSError, ValueError) as fault:
        why = fault.strerror if isinstance(fault, OSError) else "it is damaged"
        raise UsageError(f"cannot read {path}: {why}") from None
    merged: dict[str, object] = {}
    for source in sources:
        merged.update(source["topics"] if set(source) == {"ids", "topics", "v"} else source)
    if not merged:
        raise UsageError(f"{path} holds no topic offsets: the query does not read from Kafka")
    return merged
