"""Everything below talks to a real cluster with a real client."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from klamm import Cluster
from klamm.app.broker_process import BrokerProcess

_HERE = Path(__file__).parent
_INSIDE = "it looks into brokers of its own process"
# `make test-processes`: each broker of every cluster is a process of its own.
ON_PROCESSES = bool(os.environ.get("KLAMM_TEST_PROCESSES"))


def pytest_configure() -> None:
    if ON_PROCESSES:
        defaults = Cluster.__init__.__kwdefaults__
        assert defaults is not None
        defaults["processes"] = True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    return (yield from _seen_from_outside())


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    return (yield from _seen_from_outside())


def _seen_from_outside() -> Generator[None, object, object]:
    try:
        return (yield)
    except AttributeError as error:
        # Nobody sees the parts of a broker in another process.
        if ON_PROCESSES and isinstance(error.obj, BrokerProcess):
            pytest.skip(_INSIDE)
        raise


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    inside = pytest.mark.skip(reason=_INSIDE)
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)
            if ON_PROCESSES and item.get_closest_marker("one_process"):
                item.add_marker(inside)
