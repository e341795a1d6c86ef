"""`klamm version`."""

from __future__ import annotations

import platform

from klamm.cli.options import Output, OutputOption, new_app
from klamm.cli.output import print_json, say
from klamm.version import __version__

app = new_app("The version of klamm, Python and the wire.")

KAFKA_BEHAVIOUR = "3.9, ZooKeeper mode"


@app.command()
def version(output: OutputOption = Output.TEXT) -> None:
    """The version of klamm, Python and the wire."""
    if output is Output.JSON:
        facts = {
            "klamm": __version__,
            "kafka": KAFKA_BEHAVIOUR,
            "python": platform.python_version(),
        }
        print_json(facts)
    else:
        say(f"klamm {__version__} (Kafka {KAFKA_BEHAVIOUR}; Python {platform.python_version()})")
