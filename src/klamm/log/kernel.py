"""The compiled loops over records, where numba is installed: loaded once they are worth it.

To load them takes some processor time and 100 MB, which a cluster in a test that sees a few records
need not spend. So records are looked at by hand until there were many of them; then a thread of its
own loads the loops while everything goes on as before. `klamm up`, which is to last, does not wait
for that. `KLAMM_KERNELS=numpy` leaves numba alone.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import threading
from enum import Enum
from typing import Final, Protocol

from klamm.protocol.compression import Buffer
from klamm.protocol.record_scan import Bounds, Fault, Place, Rules

log = logging.getLogger(__name__)

WORTH_IT: Final = 20_000  # records that were looked at by hand in this process: some 20 ms


class Kernel(Protocol):
    """What `klamm.protocol.record_kernel` has."""

    def scan(
        self, area: Buffer, count: int, rules: Rules, faults: list[Fault]
    ) -> tuple[int, int]: ...

    def latest(self, batch: Buffer, count: int, base: int) -> int: ...

    def find_first(self, area: Buffer, count: int, bounds: Bounds) -> Place | None: ...

    def find_newest(self, area: Buffer, count: int, bounds: Bounds) -> Place | None: ...


class State(Enum):
    """How far the compiled loops are."""

    NOT_ASKED = "not asked"
    LOADING = "loading"
    ABSENT = "absent"  # everything is done by hand, and less of it
    READY = "ready"


class Loader:
    """The compiled loops of this process, or their absence."""

    __slots__ = ("_lock", "by_hand", "kernel", "state")

    def __init__(self) -> None:
        self.kernel: Kernel | None = None
        self.state = State.NOT_ASKED if _is_wanted() else State.ABSENT
        self.by_hand = 0
        self._lock = threading.Lock()

    def count(self, records: int) -> None:
        """So many records more were looked at by hand."""
        self.by_hand += records
        if self.by_hand >= WORTH_IT and self.state is State.NOT_ASKED:
            self.load_soon()

    def load_soon(self) -> None:
        """Have a thread load them, unless that was done before."""
        with self._lock:
            if self.state is not State.NOT_ASKED:
                return
            self.state = State.LOADING
        # Nobody waits for it, at the end of the process either.
        threading.Thread(target=self.load, name="klamm-kernel", daemon=True).start()

    def load(self) -> None:
        """Load and compile, however long it takes."""
        try:
            from klamm.protocol import record_kernel

            record_kernel.warm_up()
        except Exception:  # numba fails in more ways than it tells, and we can do without it
            log.warning("records are checked without compiled loops", exc_info=True)
            self.state = State.ABSENT
            return
        self.kernel = record_kernel
        self.state = State.READY


def _is_wanted() -> bool:
    if os.environ.get("KLAMM_KERNELS") == "numpy":
        return False
    return importlib.util.find_spec("numba") is not None


LOADER: Final = Loader()
