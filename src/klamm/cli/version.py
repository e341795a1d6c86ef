"""`klamm version`."""

from __future__ import annotations

import platform

from klamm.cli.options import Output, OutputOption, new_app
from klamm.cli.output import print_json, say
from klamm.protocol.native.records import LOOPS
from klamm.version import __version__

app = new_app("Print the versions of klamm, Python and the protocol.")

KAFKA_BEHAVIOUR = "3.9, ZooKeeper mode"


@app.command()
def version(output: OutputOption = Output.TEXT) -> None:
    """Print the versions of klamm, Python and the protocol.

    Example: klamm version -o json
    """
    checks = "compiled" if LOOPS.kernel is not None else "by hand"
    if output is Output.JSON:
        facts = {
            "klamm": __version__,
            "kafka": KAFKA_BEHAVIOUR,
            "python": platform.python_version(),
            "record_checks": checks,
        }
        print_json(facts)
    else:
        about = f"Kafka {KAFKA_BEHAVIOUR}; Python {platform.python_version()}"
        say(f"klamm {__version__} ({about}; record checks: {checks})")
