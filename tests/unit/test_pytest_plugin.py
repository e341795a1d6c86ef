"""The plugin as other projects meet it: pytest runs inside pytest."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]


def test_importing_the_plugin_imports_no_cluster() -> None:
    code = (
        "import sys, klamm.pytest_plugin\n"
        "print([m for m in sys.modules if m.startswith(('klamm.', 'kio', 'asyncio'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['klamm.version', 'klamm.pytest_plugin']"


def test_markers_shape_the_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.klamm(brokers=2, settings={"num.partitions": 4})

        @pytest.mark.klamm(settings={"default.replication.factor": 2})
        def test_both_count(klamm_cluster):
            assert klamm_cluster.running == [0, 1]
            assert len(klamm_cluster.bootstrap_servers.split(",")) == 2
            settings = klamm_cluster.settings
            assert settings.int("num.partitions") == 4
            assert settings.int("default.replication.factor") == 2

        @pytest.mark.klamm(brokers=1)
        def test_the_nearest_wins(klamm_cluster):
            assert klamm_cluster.running == [0]
        """
    )
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:asyncio")
    result.assert_outcomes(passed=2)


def test_the_session_has_one_cluster(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nklamm_brokers = 1\nklamm_settings =\n    num.partitions=9\n")
    pytester.makepyfile(
        """
        seen = []

        def test_one(klamm_session_cluster):
            seen.append(klamm_session_cluster)
            assert klamm_session_cluster.settings.int("num.partitions") == 9

        def test_two(klamm_session_cluster):
            assert seen == [klamm_session_cluster]
            assert klamm_session_cluster.running == [0]
        """
    )
    pytester.runpytest_subprocess("-p", "no:asyncio").assert_outcomes(passed=2)


def test_a_mistake_in_the_marker_is_explained(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.klamm(settings={"num.partition": 1})
        def test_unknown(klamm_cluster): ...

        @pytest.mark.klamm(3)
        def test_positional(klamm_cluster): ...
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:asyncio")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*num.partitions*", "*takes keywords*"])


def test_the_marker_is_known_under_strict_markers(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.klamm(brokers=1)
        def test_needs_no_cluster(): ...
        """
    )
    pytester.runpytest_subprocess("--strict-markers", "-p", "no:asyncio").assert_outcomes(passed=1)
