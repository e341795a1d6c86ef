"""`klamm version`."""

from __future__ import annotations

import platform

from klamm import __version__
from klamm.cli.options import Output, OutputOption, new_app
from klamm.cli.output import print_json, say

app = new_app("Print the versions of klamm, Python and the protocol.")

KAFKA_BEHAVIOUR = "3.9, ZooKeeper mode"


@app.command()
def version(output: OutputOption = Output.TEXT) -> None:
    """Print the versions of klamm, Python and the protocol."""
    if output is Output.JSON:
        facts = {
            "klamm": __version__,
            "kafka": KAFKA_BEHAVIOUR,
            "python": platform.python_version(),
        }
        print_json(facts)
    else:
        say(f"klamm {__version__} (Kafka {KAFKA_BEHAVIOUR}; Python {platform.python_version()})")
