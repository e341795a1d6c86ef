"""Settings of topics that somebody chose."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.client.aio.admin import Admin, ConfigResource
from klamm.model.alterations import ConfigResourceType

TOPICS_MAX: Final = 5_000
_PAGE: Final = 500
_CHOSEN: Final = 1  # the source of a topic's own setting


async def overrides(admin: Admin, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """The settings of topics that differ from the brokers'; values that are secret are left out."""
    wanted = list(names)[:TOPICS_MAX]
    found: dict[str, dict[str, str]] = {}
    for first in range(0, len(wanted), _PAGE):
        page = wanted[first : first + _PAGE]
        asked = [ConfigResource(ConfigResourceType.TOPIC, name) for name in page]
        for result in await admin.describe_configs(asked):
            found[result.resource_name] = {
                entry.name: entry.value
                for entry in result.configs
                if entry.config_source == _CHOSEN and not entry.is_sensitive and entry.value
            }
    return found
