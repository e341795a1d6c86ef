"""Apache Kafka from Maven: its clients, its tools, and the broker itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from interop_extra.toolbox import HERE, cached, run, tool

# The last line that knows ZooKeeper, and the newest.
VERSIONS = ("3.9.1", "4.3.1")
POM = HERE / "java" / "pom.xml"
LOGGING = HERE / "java" / "log4j.properties"
# Programs that live for seconds: no second compiler, no threads for collecting garbage.
LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")


def jars(version: str) -> Path:
    """The directory with all jars of one Kafka."""
    return cached(
        f"kafka-{version}",
        lambda into: [
            *(tool("mvn"), "-q", "-B", "-f", str(POM)),
            *("dependency:copy-dependencies", "-DincludeScope=runtime"),
            *(f"-Dkafka={version}", f"-DoutputDirectory={into}"),
        ],
    )


def java(version: str, *words: str) -> list[str]:
    """The command that runs a class, or a source file, with the jars of one Kafka."""
    logging = f"-Dlog4j.configuration={LOGGING.as_uri()}"
    return [tool("java"), *LIGHT, logging, "-cp", f"{jars(version)}/*", *words]


def shell(version: str, name: str, *words: str, stdin: str = "") -> str:
    """What a shell tool of Kafka prints."""
    return run(java(version, main_class(version, name), *words), stdin=stdin)


def main_class(version: str, name: str) -> str:
    """The class behind `bin/<name>.sh`."""
    if version.startswith("3"):
        return _MAINS_OF_3.get(name, _MAINS[name])
    return _MAINS[name]


# These were written in Scala then.
_MAINS_OF_3 = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
}


_MAINS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}


def dump(version: str, *files: Path, flags: Sequence[str] = ()) -> str:
    """What DumpLogSegments says about files of a log; of mismatches it speaks on stderr."""
    words = (*flags, "--files", ",".join(map(str, files)))
    return run(java(version, main_class(version, "kafka-dump-log"), *words), with_stderr=True)
