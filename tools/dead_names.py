"""Names in src that nothing in src uses.

    python tools/dead_names.py

Remove what it finds. What somebody outside calls or reads is listed below, with who that is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from vulture import Vulture  # type: ignore[import-untyped]

SOURCE: Final = Path(__file__).parents[1] / "src"
CONFIDENCE_MIN: Final = 60

# Files whose names need no user here.
LEFT_OUT: Final = (
    "klamm/protocol/messages/",  # every field of the wire is there, whoever reads it
    "klamm/security/",  # the shell does not offer all of these cores yet
    "klamm/model/errors.py",  # Kafka's codes are all there, also those that klamm never sends
)
DECORATORS: Final = ["@*.command", "@*.fixture"]
NAMES: Final = {
    "asyncio": """connection_made connection_lost get_buffer buffer_updated data_received
        eof_received pause_writing resume_writing sizehint""",
    "Spark": """streamReader streamWriter initialOffset getDefaultReadLimit reportLatestOffset
        prepareForTriggerAvailableNow onQueryStarted onQueryIdle onQueryProgress
        onQueryTerminated pythonExec toChannel""",
    "pyiceberg and urllib": "commit_table PlacesFileIO _initialize_hdfs_fs redirect_request",
    "starlette": "redirect_slashes",
    "kazoo": "serialize deserialize _reset_watchers _data_watchers _child_watchers",
    "Python, pytest and numba": """__getattr__ __annotations__ pytest_*
        src_at dst_at returncode num_tickets""",
    "users of the Python API": """wait_for_leader wait_for_controller topic_by_id delete_offsets
        say_plainly client_config all_are_in_sync""",
    "JSON, tables and the wire, which read a whole object": """instance kafka schema_fingerprint
        offline_logs why_halted waits_for
        partition_metadata device inode topic_config_error_code topic_authorized_operations
        cluster_authorized_operations old_style_offsets active_broker_count fenced_broker_count
        global_topic_count global_partition_count offline_partitions_count
        preferred_replica_imbalance_count topics_to_delete_count topics_ineligible_to_delete_count
        replicas_to_delete_count replicas_ineligible_to_delete_count
        reassigning_partitions_count""",
    "parsers, which find the member of an enum by its value": """REFUSE ONE SESSION_EXPIRED
        ACCEPT RESTART DELTA ICEBERG""",
    "listeners that are closed while a broker runs": "dismiss",
    "tests": """buffered close_idle commits_count look_in waiting_count differences judge line_of
        is_final include_headers include_batch_info FRAME_SIZE_MAX framed""",
}


def dead_names(source: Path = SOURCE) -> list[str]:
    """One line for each name that nothing uses."""
    allowed = [name for names in NAMES.values() for name in names.split()]
    finder = Vulture(ignore_names=allowed, ignore_decorators=DECORATORS)
    finder.scavenge([str(source)])
    return [
        f"{item.filename.relative_to(source)}:{item.first_lineno}: {item.message}"
        for item in finder.get_unused_code(min_confidence=CONFIDENCE_MIN)
        if not str(item.filename.relative_to(source)).startswith(LEFT_OUT)
    ]


def main() -> int:
    """Print the dead names; 1 if there are any."""
    found = dead_names()
    for line in found:
        sys.stdout.write(line + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
