"""The end of a caller's patience, handed down through everything that is tried on the way."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import Self

from klamm.client.errors import DeadlineExceeded


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the loop's clock."""

    at_s: float
    attempt_s: float = math.inf  # what one try may take of it

    @classmethod
    def after(cls, seconds: float, attempt_s: float = math.inf) -> Self:
        return cls(asyncio.get_running_loop().time() + seconds, attempt_s)

    def left_s(self) -> float:
        """What is left for a try; `DeadlineExceeded` when nothing is."""
        left = self.at_s - asyncio.get_running_loop().time()
        if left <= 0:
            raise DeadlineExceeded("the time given is over")
        return min(left, self.attempt_s)

    @property
    def left_ms(self) -> int:
        """What is left as the brokers count, at least 1."""
        left_s = self.at_s - asyncio.get_running_loop().time()
        return max(1, int(1000 * min(left_s, self.attempt_s)))

    async def pause(self, seconds: float) -> bool:
        """Waits a little before another try; False when there is no time for one."""
        if self.at_s - asyncio.get_running_loop().time() <= seconds:
            return False
        await asyncio.sleep(seconds)
        return True
