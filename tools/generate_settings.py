"""Writes `docs/reference/settings.md` from the tables of settings.

python tools/generate_settings.py            writes the page
python tools/generate_settings.py --check    says whether it is stale
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from klamm.model.settings import TOPIC_SETTINGS, Definition, Dynamic
from klamm.model.settings.broker import GROUPS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "settings.md"

HEAD = """# Settings

Generated from `src/klamm/model/settings`; a test fails when this page is stale.

Every setting can be given when a broker starts (`klamm up -X name=value`,
`Cluster(settings={...})`). Settings marked *while running* can also be changed later
(`klamm configs set`, AlterConfigs); the others are refused there and need a restart. The most
specific value wins: the topic's own, then the broker's dynamic value, then the dynamic value of all
brokers, then the start-up value, then the default. A change takes effect as soon as a broker hears
of it: on its logs, throttles, quotas, periodic work and connections, and in the controller's
elections. The name of a topic setting given at start-up (`-X retention.ms=...`) stands for the
broker setting that gives topics their default.

Integers are decimal, booleans are true or false in any case, lists are separated by commas. An
unknown name is refused, and the error suggests the name that was probably meant.
"""


def table(definitions: Iterable[Definition], *, topics: bool) -> str:
    """One table; the fourth column is where the default comes from, or who may change the value."""
    fourth = "Default from" if topics else "Changes"
    lines = [f"| Setting | Type | Default | {fourth} | Meaning |", "|---|---|---|---|---|"]
    for definition in definitions:
        where = (
            ", ".join(f"`{synonym.name}`" for synonym in definition.synonyms)
            if topics
            else _changes(definition)
        )
        lines.append(
            f"| `{definition.name}` | {definition.kind.name.lower()} | {_default(definition)} "
            f"| {where or '-'} | {_meaning(definition)} |"
        )
    return "\n".join(lines) + "\n"


def _changes(definition: Definition) -> str:
    return "restart required" if definition.dynamic is Dynamic.READ_ONLY else "while running"


def _default(definition: Definition) -> str:
    if definition.default is None:
        return "-"
    return f"`{definition.default}`" if definition.default else "empty"


def _meaning(definition: Definition) -> str:
    valid = f" Valid: {definition.valid}." if definition.valid is not None else ""
    idle = f" No effect: {definition.no_effect}." if definition.no_effect else ""
    return f"{definition.doc}{valid}{idle}".replace("|", "\\|").replace("*", "\\*")


def idle(definitions: Iterable[Definition]) -> str:
    """Settings without effect, by reason."""
    reasons: dict[str, list[str]] = {}
    for definition in definitions:
        mark = "" if definition.dynamic is Dynamic.READ_ONLY else "\\*"
        reasons.setdefault(definition.no_effect, []).append(f"`{definition.name}`{mark}")
    return "\n".join(f"- {reason}: {', '.join(names)}." for reason, names in reasons.items()) + "\n"


def page() -> str:
    parts = [HEAD, "\n## Topics\n\n", table(TOPIC_SETTINGS.values(), topics=True)]
    for title, group in GROUPS.items():
        parts.append(f"\n## {title}\n\n")
        if title == "Without effect":
            parts.append(
                "Kafka's settings that klamm takes but does not act on, and why. Those with a star "
                "may be set while\nbrokers run, as in Kafka.\n\n"
            )
            parts.append(idle(group))
        else:
            parts.append(table(group, topics=False))
    return "".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    fresh = page()
    if not parser.parse_args().check:
        PAGE.write_text(fresh)
        return 0
    if PAGE.exists() and PAGE.read_text() == fresh:
        return 0
    sys.stderr.write(f"{PAGE.name} is stale: python tools/generate_settings.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
