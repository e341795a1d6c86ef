"""A Python process of Spark, which runs one task after another.

After each task Spark has it collect garbage, which means a look at every object of every module
that is loaded: some 90 ms of CPU time with Arrow and numba, more than many a task. What modules
leave behind lives as long as the process, so it is taken out of the collector's sight.
"""

from __future__ import annotations

import gc
import sys

_modules = 0  # how many were loaded when this was done last


def begin_task() -> None:
    """Called where a task begins, just after Spark's collection: no garbage is there to be kept."""
    from pyspark import TaskContext

    global _modules
    if TaskContext.get() is not None and len(sys.modules) > _modules:
        _modules = len(sys.modules)
        gc.freeze()
