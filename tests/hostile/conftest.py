"""The cluster that the attacks share, replaced as soon as one of them has hurt it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import pytest

from hostile.catalogue import SETTINGS
from hostile.target import Target


class Shared:
    """One cluster for attack after attack, as long as none leaves a trace."""

    def __init__(self, places: pytest.TempPathFactory) -> None:
        self._places = places
        self._numbers = count()
        self._current: Target | None = None

    def get(self) -> Target:
        if self._current is not None and self._current.is_dirty:
            self.close()
        if self._current is None:
            place = self._places.mktemp(f"hostile-{next(self._numbers)}")
            self._current = Target(place / "cluster", settings=SETTINGS)
            self._current.start()
        return self._current

    def close(self) -> None:
        if self._current is not None:
            with suppress(AttributeError):
                self._current.kill()
            self._current = None


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    kept = Shared(tmp_path_factory)
    try:
        yield kept
    finally:
        kept.close()
