"""What the JVM says is passed on, but for one warning."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from klamm.pipelines.session.stderr import without_incubator_warning

WARNING = "WARNING: Using incubator modules: jdk.incubator.vector"


def said(*lines: str, code: int = 0) -> subprocess.CompletedProcess[bytes]:
    text = "".join(f"{line}\n" for line in lines)
    program = f"import sys; sys.stderr.write({text!r}); sys.exit({code})"
    return subprocess.run([sys.executable, "-c", program], check=bool(code))


def passed_on(capfd: pytest.CaptureFixture[str]) -> str:
    for thread in threading.enumerate():
        if thread.name == "jvm-stderr":
            thread.join(10)
    return capfd.readouterr().err


def test_everything_but_the_warning(capfd: pytest.CaptureFixture[str]) -> None:
    with without_incubator_warning():
        said(WARNING, "a fault")
    said("after")
    assert sorted(passed_on(capfd).splitlines()) == ["a fault", "after"]


def test_a_failure_is_explained_before_it_is_raised(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError), without_incubator_warning():
        said(WARNING, "no memory", code=3)
    assert capfd.readouterr().err == "no memory\n"
