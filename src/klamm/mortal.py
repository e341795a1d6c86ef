"""Commands that end when the process that started them does, however it ends."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

# Asks the kernel for a signal when the parent ends, and becomes the command then. A parent that
# ended before the question is not the parent any more.
_DIE_WITH_PARENT: Final = """
import ctypes, os, sys
parent, number, mask = map(int, sys.argv[1:4])
if ctypes.CDLL(None, use_errno=True).prctl(1, number, 0, 0, 0):
    sys.exit("prctl: " + os.strerror(ctypes.get_errno()))
if os.getppid() != parent:
    sys.exit("the process that wanted this one has ended")
if mask >= 0:
    os.umask(mask)
os.execvp(sys.argv[4], sys.argv[4:])
"""

_AS_IT_IS: Final = -1


def mortal(
    command: Sequence[str], *, by: signal.Signals = signal.SIGKILL, umask: int = _AS_IT_IS
) -> list[str]:
    """The command that runs this one, and has it end by a signal when this process ends.

    More exactly, when the thread ends that starts it.
    """
    words = (str(os.getpid()), str(int(by)), str(umask))
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, *words, *command]
