"""Starts `klamm`: chooses the command, imports only that, turns failures into one sentence.

Exit codes: 0 done, 1 it was tried and failed, 2 it was asked wrongly, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, NamedTuple, Protocol, cast

from klamm.cli.output import Hints, say, say_text


class Entry(NamedTuple):
    """One word after `klamm`, the module that answers it, and its line in the help."""

    module: str
    summary: str


class Runnable(Protocol):
    """The `app` that a command's module offers; a `parsing.App` is one."""

    def __call__(self, *, args: Sequence[str], prog_name: str) -> object: ...


SECTIONS: Final[Mapping[str, Mapping[str, Entry]]] = {
    "Run": {
        "up": Entry("cluster.up", "run a cluster until Ctrl-C"),
        "broker": Entry("cluster.broker", "run one broker of a cluster until it is told to stop"),
        "demo": Entry("spark.demo", "take a guided tour of about two minutes"),
        "console": Entry("cluster.console", "show a cluster in a browser until Ctrl-C"),
        "doctor": Entry("cluster.doctor", "check whether this machine can run a cluster"),
        "version": Entry("version", "print the versions of klamm, Python and the protocol"),
    },
    "Topics and records": {
        "topics": Entry("topics.topics", "create, list, describe, alter and delete topics"),
        "produce": Entry("records.produce", "write lines from standard input to a topic"),
        "consume": Entry("records.consume", "print the records of a topic"),
        "story": Entry("topics.story", "print every decision about a topic, and why"),
    },
    "Operate": {
        "status": Entry("cluster.status", "show whether a cluster is healthy, and what is wrong"),
        "configs": Entry("cluster.configs", "read and change the settings of topics and brokers"),
        "cluster": Entry(
            "cluster.cluster", "stop, kill, start, pause brokers of a cluster on this machine"
        ),
        "brokers": Entry("cluster.brokers", "list, describe and drain brokers"),
        "elect": Entry("cluster.elect", "elect preferred leaders, or any live replica"),
        "reassign": Entry("cluster.reassign", "move replicas: plan, apply, watch, cancel"),
        "groups": Entry("groups.groups", "list, describe, reset and delete consumer groups"),
        "acls": Entry("access.acls", "list, add, remove and check access control lists"),
        "users": Entry("access.users", "list, add and remove users, change their passwords"),
        "store": Entry(
            "store.store", "look into the store, export and import it, restore or repair it"
        ),
    },
    "Records in bulk, on Spark": {
        "archive": Entry("spark.archive", "archive a topic as Parquet files, and verify them"),
        "restore": Entry("spark.restore", "restore a topic from its archive, and verify it"),
        "repartition": Entry(
            "spark.repartition", "give a topic more or fewer partitions, order per key kept"
        ),
        "table": Entry("spark.table", "keep Parquet, Delta or Iceberg tables of topics"),
        "audit": Entry("spark.audit", "check every decision of the controllers, write a report"),
        "spark": Entry("spark.spark", "open a PySpark shell, check the set-up, read a checkpoint"),
    },
    "This machine": {
        "profile": Entry("person.profile", "give clusters names, and choose one"),
        "completion": Entry("person.completion", "complete commands and names in your shell"),
        "data": Entry("person.data", "show or remove the data of a local cluster"),
    },
    "With the flags of Kafka's own tools": {
        "kafka-topics": Entry("kafka.topics", "the same as kafka-topics.sh"),
        "kafka-configs": Entry("kafka.configs", "the same as kafka-configs.sh"),
        "kafka-acls": Entry("kafka.access.acls", "the same as kafka-acls.sh"),
        "kafka-delegation-tokens": Entry(
            "kafka.access.delegation_tokens", "the same as kafka-delegation-tokens.sh"
        ),
        "kafka-consumer-groups": Entry(
            "kafka.groups.consumer_groups", "the same as kafka-consumer-groups.sh"
        ),
        "kafka-reassign-partitions": Entry(
            "kafka.reassign_partitions", "the same as kafka-reassign-partitions.sh"
        ),
        "kafka-console-producer": Entry(
            "kafka.records.console_producer", "the same as kafka-console-producer.sh"
        ),
        "kafka-console-consumer": Entry(
            "kafka.records.console_consumer", "the same as kafka-console-consumer.sh"
        ),
        "kafka-get-offsets": Entry("kafka.records.get_offsets", "the same as kafka-get-offsets.sh"),
        "kafka-delete-records": Entry(
            "kafka.records.delete_records", "the same as kafka-delete-records.sh"
        ),
        "kafka-leader-election": Entry(
            "kafka.leader_election", "the same as kafka-leader-election.sh"
        ),
        "kafka-log-dirs": Entry("kafka.log_dirs", "the same as kafka-log-dirs.sh"),
    },
}
COMMANDS: Final = {name: command for part in SECTIONS.values() for name, command in part.items()}

_USAGE: Final = "usage: klamm [--debug] [--profile NAME] COMMAND ..."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    args = list(sys.argv[1:] if argv is None else argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A character that the terminal does not have is shown by its code, as on stderr.
        sys.stdout.reconfigure(errors="backslashreplace")
    debug = bool(os.environ.get("KLAMM_DEBUG"))
    while args and args[0] in ("--debug", "--profile"):
        if args[0] == "--debug":
            debug = True
            del args[0]
        elif len(args) == 1:
            return _complain("--profile needs the name of a profile", 2)
        else:
            # Whoever names a profile means it, whatever the environment says.
            os.environ["KLAMM_PROFILE"] = args[1]
            os.environ.pop("KLAMM_BOOTSTRAP_SERVER", None)
            del args[:2]
    if args[:1] == ["__complete"]:
        from klamm.cli.person.completion import answer

        return answer(args[1:], {name: command.module for name, command in COMMANDS.items()})
    if not args or args[0] in ("-h", "--help", "help"):
        say_text(_help())
        return 0 if args else 2
    if args[0] in ("-V", "--version"):
        args[0] = "version"
    name, *rest = args
    if name not in COMMANDS:
        return _complain(
            f"there is no command {name!r}{_nearest(name)} (klamm --help lists them)", 2
        )
    code = _guarded(name, rest, debug=debug)
    if Hints.were_given and sys.stderr.isatty():
        from klamm.cli.invocation import this_command

        if (typed := this_command()) != "klamm":
            say(f"(klamm is not on the path of this shell: type {typed})", to=sys.stderr)
    return code


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [_USAGE, "", "A replicated Kafka cluster in Python."]
    for title, commands in SECTIONS.items():
        lines += ["", f"{title}:"]
        lines += [f"  {name:{width}}  {command.summary}" for name, command in commands.items()]
    lines += ["", "Run klamm COMMAND --help for details, klamm --debug COMMAND for tracebacks."]
    return "\n".join(lines)


def _nearest(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def _guarded(name: str, args: Sequence[str], *, debug: bool) -> int:
    """The one place where an exception becomes a sentence and an exit code."""
    from klamm.model.errors import KlammError, UsageError

    try:
        app = cast(Runnable, import_module(f"klamm.cli.{COMMANDS[name].module}").app)
        app(args=args, prog_name=f"klamm {name}")
        sys.stdout.flush()
    except SystemExit as exit_:
        return _code(exit_)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`klamm consume | head`): that is no failure of ours.
        # Without this, Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except UsageError as error:
        return _complain(str(error), 2, debug=debug)
    except (KlammError, OSError, TimeoutError) as error:
        return _complain(_words(error), 1, debug=debug)
    except Exception as error:  # noqa: BLE001 - the top of the program
        what = f"unexpected {type(error).__name__}: {error} (klamm --debug {name} shows where)"
        return _complain(what, 1, debug=debug)
    return 0


def _words(error: Exception) -> str:
    """A failure in words; that of a file names the file, and not the system's number for it."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _code(exit_: SystemExit) -> int:
    if exit_.code is None or isinstance(exit_.code, int):
        return exit_.code or 0
    return _complain(str(exit_.code), 1)


def _complain(sentence: str, code: int, *, debug: bool = False) -> int:
    if debug:
        import traceback

        say_text(traceback.format_exc().rstrip("\n"), to=sys.stderr)
    say(f"klamm: {sentence}", to=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
