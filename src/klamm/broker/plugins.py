"""Python callables that settings name: `package.module:callable`.

A class is instantiated once, without arguments.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from klamm.model.errors import UsageError


def load(setting: str, name: str) -> Callable[[Any], object]:
    """The callable of this name; a UsageError says why there is none."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise UsageError(f"{setting}={name}: write it as package.module:callable")
    try:
        found: Any = getattr(importlib.import_module(module_name), attribute)
    except ImportError as fault:
        raise UsageError(f"{setting}={name}: {fault}") from fault
    except AttributeError:
        raise UsageError(f"{setting}={name}: {module_name} has no {attribute}") from None
    plugin: Any = found() if inspect.isclass(found) else found
    if not callable(plugin):
        raise UsageError(f"{setting}={name}: {attribute} is not callable")
    ask: Callable[[Any], object] = plugin
    return ask
