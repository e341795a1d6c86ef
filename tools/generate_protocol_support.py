"""Writes `docs/reference/protocol-support.md` from the table of APIs.

Which clients have used an API, and in which versions, comes from `protocol-clients.json` beside it,
where the interop tests put what they saw: `{"Metadata": {"aiokafka": [5], "librdkafka": [12]}}`.

    python tools/generate_protocol_support.py            writes the page
    python tools/generate_protocol_support.py --check    says whether it is stale
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from klamm.broker.api import SERVED
from klamm.protocol.apis import APIS, Api
from klamm.protocol.private import KEYS, PrivateKey

DOCS = Path(__file__).parent.parent / "docs" / "reference"
PAGE = DOCS / "protocol-support.md"
SEEN = DOCS / "protocol-clients.json"

HEAD = """# Protocol support

Generated from `src/klamm/protocol/apis.py`; a test fails when this page is stale.

*Spoken* are the versions klamm reads and writes, *advertised* those that ApiVersions lists. An API
with a dash there is not listed: brokers use it among themselves, or nothing handles it yet, which
the third column tells. From the *flexible* version on, an API has compact types and tagged fields.
The last column names the clients that have used the API against klamm in its tests, with the
versions they chose.

| Key | API | Handled | Spoken | Advertised | Flexible | Used by |
|---|---|---|---|---|---|---|
"""

TAIL = """
## Old versions

Kafka 3.9 serves every API from version 0 on, and so does klamm, but for these:

| API | Not served | Why |
|---|---|---|
| OffsetCommit, OffsetFetch | 0 | They keep offsets as nodes of the store, past the group's \
coordinator: whoever may write could fill it with nodes of groups that never were. Clients have \
used version 1 since 0.8.2; the versions are not advertised. |

Produce 0-2 and Fetch 0-3 carry message sets, the record formats 0 and 1 of before 0.11. The log
holds batches of format 2 only, as Kafka's does with any `inter.broker.protocol.version` from 3.0
on, whatever `message.format.version` says. So a message set is made a batch before it is
appended: one batch for all its messages, with the codec of its wrapper, and no times (-1) where
format 0 has none. A batch is made messages again for Fetch 0-1 (format 0) and 2-3 (format 1):
without headers and producers, of transactions also what was aborted, of markers nothing,
compressed by its own codec. zstd did not exist then (UNSUPPORTED_COMPRESSION_TYPE), and
`message.downconversion.enable=false` refuses such readers (UNSUPPORTED_VERSION). The work is
bounded as that of other batches is ([bounds.md](bounds.md)), and a large answer is made while it
is sent (KIP-283).

The group protocol of KIP-848 (68, 69) is advertised where `group.coordinator.rebalance.protocols`
has `consumer`, as it has by default; clients use it only when they are told to.

Not served: telemetry (71, 72), share and streams groups
(76-79, 83-92), KRaft (52-55, 59, 62-64, 70, 73, 80-82), DescribeTopicPartitions (75), delegation
tokens (38-41), UpdateFeatures (57). Every client falls back or never asks.

## Private APIs

Keys {low}-{high}, version 0, with a JSON object as body. They are listed only for a client that
calls itself `klamm`.

| Key | API |
|---|---|
"""


def row(api: Api, seen: dict[str, list[int]]) -> str:
    flexible = str(api.flexible_from) if api.flexible_from <= api.served.high else "-"
    clients = ", ".join(
        f"{client} ({', '.join(map(str, sorted(versions)))})"
        for client, versions in sorted(seen.items())
    )
    handled = api.key in SERVED
    told = api.advertised if handled and api.advertised is not None else "-"
    yes = "yes" if handled else "no"
    cells = (int(api.key), api.title, yes, api.served, told, flexible, clients)
    return "| " + " | ".join(str(cell) for cell in cells).rstrip() + " |\n"


def page() -> str:
    seen = json.loads(SEEN.read_text()) if SEEN.exists() else {}
    rows = "".join(row(api, seen.get(api.title, {})) for api in APIS.values())
    titles = {key: key.name.title().replace("_", "") for key in PrivateKey}
    private = "".join(f"| {int(key)} | {title} |\n" for key, title in titles.items())
    return HEAD + rows + TAIL.format(low=KEYS[0], high=KEYS[-1]) + private


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/reference/protocol-support.md.")
    parser.add_argument("--check", action="store_true", help="write nothing, say if it is stale")
    if parser.parse_args().check:
        fresh = PAGE.exists() and PAGE.read_text() == page()
        sys.stdout.write("" if fresh else "stale: protocol-support.md\n")
        return 0 if fresh else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
