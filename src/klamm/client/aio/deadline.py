"""The end of a caller's patience, handed down through everything that is tried on the way."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Final, Self

from klamm.client.errors import DeadlineExceeded

# What the way of a request and its answer may take, but not more than a part of a short time.
_ON_THE_WAY_S: Final = 1.0
_AT_LEAST: Final = 0.8


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the loop's clock."""

    at_s: float
    attempt_s: float = math.inf  # what one try may take of it

    @classmethod
    def after(cls, seconds: float, attempt_s: float = math.inf) -> Self:
        return cls(asyncio.get_running_loop().time() + seconds, attempt_s)

    def left_s(self) -> float:
        """The time left for a try; `DeadlineExceeded` if there is none."""
        left = self.at_s - asyncio.get_running_loop().time()
        if left <= 0:
            raise DeadlineExceeded("the time given is over")
        return min(left, self.attempt_s)

    @property
    def left_ms(self) -> int:
        """The milliseconds a broker may take for a try, at least 1.

        A little less than is waited for its answer: a broker that says that its time is over
        should be heard, and not be asked once more for what it has done already.
        """
        left_s = min(self.at_s - asyncio.get_running_loop().time(), self.attempt_s)
        return max(1, int(1000 * max(left_s - _ON_THE_WAY_S, _AT_LEAST * left_s)))

    async def pause(self, seconds: float) -> bool:
        """Waits a little before another try; False when there is no time for one."""
        if self.at_s - asyncio.get_running_loop().time() <= seconds:
            return False
        await asyncio.sleep(seconds)
        return True
