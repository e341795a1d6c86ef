"""Chooses the loops that decode and encode records: compiled ones if numba is installed.

`KLAMM_KERNELS=numpy` forces the fall-back, for machines where compiled code is unwelcome.
"""

from __future__ import annotations

import importlib
import logging
import os
from functools import cache
from typing import Any

from klamm.model.errors import UsageError

log = logging.getLogger(__name__)

_CHOICES = ("numba", "numpy")


@cache
def kernels(name: str | None = None) -> Any:
    """The module with the loops, chosen once a process."""
    wanted = name or os.environ.get("KLAMM_KERNELS")
    if wanted is not None and wanted not in _CHOICES:
        raise UsageError(f"KLAMM_KERNELS={wanted}: choose numba or numpy")
    if wanted != "numpy":
        try:
            return importlib.import_module("klamm.pipelines.records.kernels_numba")
        except (ImportError, OSError, MemoryError) as fault:
            # A worker with little address space cannot load what numba needs, and can do without.
            if wanted == "numba":
                raise
            if not isinstance(fault, ImportError):
                log.warning("numba does not load, records are decoded without it: %s", fault)
    return importlib.import_module("klamm.pipelines.records.kernels_numpy")
