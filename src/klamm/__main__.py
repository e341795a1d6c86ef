"""`python -m klamm`: the same as `klamm`."""

from __future__ import annotations

import sys

from klamm.cli.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
