"""`klamm kafka-delete-records`: the flags, output and exit codes of Kafka's tool of that name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from klamm.cli.asking import bare, run
from klamm.cli.facts import known
from klamm.cli.kafka import plans
from klamm.cli.kafka.options import HELP, VERSION, Options, ToolOption, begin
from klamm.cli.output import say
from klamm.client import settings as client_settings
from klamm.client.aio.admin import Admin
from klamm.client.errors import code_of
from klamm.model.errors import ErrorCode, KlammError
from klamm.model.names import TopicPartition

OPTIONS: Final = (
    ToolOption(
        "bootstrap-server", "server(s) to use for bootstrapping", "REQUIRED: whom to connect to."
    ),
    ToolOption("command-config", "command config property file path", "Properties of the client."),
    HELP,
    ToolOption(
        "offset-json-file",
        "Offset json file path",
        'REQUIRED: {"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}',
    ),
    VERSION,
)
_ABOUT: Final = (
    "This tool helps to delete records of the given partitions down to the specified offset."
)


def parse(args: Sequence[str]) -> Options:
    """The options of a command line that makes sense."""
    options = begin("kafka-delete-records", _ABOUT, OPTIONS, args)
    options.require("bootstrap-server", "offset-json-file")
    return options


def app(*, args: Sequence[str], prog_name: str) -> None:
    """One run of the tool."""
    options = parse(args)
    try:
        before = offsets_of(plans.read(options.one("offset-json-file")))
        settings = client_settings.read(options.one("command-config"))
        run(options.one("bootstrap-server") or "", lambda admin: _delete(admin, before), settings)
    except (KlammError, ValueError, OSError) as error:
        options.fail(bare(error))


def offsets_of(text: str) -> dict[TopicPartition, int]:
    """The offsets of a file, a partition each."""
    document = plans.document(text)
    if "partitions" not in document:
        raise ValueError("Missing partitions field")
    found = [
        (plans.partition(entry), plans.field(entry, "offset", int))
        for entry in plans.entries(document, "partitions")
    ]
    if twice := plans.repeated(tp for tp, _ in found):
        named = ",".join(map(str, twice))
        raise ValueError(f"Offset json file contains duplicate topic partitions: {named}")
    return dict(found)


async def _delete(admin: Admin, before: Mapping[TopicPartition, int]) -> None:
    say("Executing records delete operation")
    there = await known(admin, before)
    results = await admin.delete_records({tp: before[tp] for tp in there}) if there else {}
    say("Records delete operation completed:")
    for tp in sorted(before):
        code = results[tp].error_code if tp in results else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if code:
            what = f"error: {plans.exception(code)}: {code_of(code).name}"
        else:
            what = f"low_watermark: {results[tp].low_watermark}"
        say(f"partition: {tp}\t{what}", keep="\t")
