"""Running of one suite against a cluster of its own, within its time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

from suites import doors, fetching
from suites.catalogue import Explanation, Suite
from suites.outcomes import FAILED, Outcome, of_go, of_junit
from unit.store.zookeeper_server import ZooKeeperServer

_READY_WITHIN: Final = 120
_STOP_WITHIN: Final = 60
_PYTEST: Final = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--continue-on-collection-errors")


# Starts a cluster for a suite, which writes to a file, and tells its addresses (`addresses`).
Cluster = Callable[[Suite, Path], AbstractContextManager[dict[str, str]]]


@contextmanager
def cluster(suite: Suite, log: Path) -> Iterator[dict[str, str]]:
    """A fresh klamm with the settings of a suite: its addresses. It writes to a file."""
    if suite.listeners:
        with from_files(suite, log, _klamm_broker) as words:
            yield words
        return
    line = [sys.executable, "-m", "klamm.cli", "up", "--ephemeral", "--port", "0"]
    line += ["--host", suite.host]
    line += ["--brokers", str(suite.brokers)]
    line += ["--rack", suite.racks] if suite.racks else []
    for name, value in suite.settings.items():
        line += ["-X", f"{name}={value}"]
    with _started(line, log) as ready:
        yield addresses(ready.split(" ")[0].removeprefix("bootstrap="))


@contextmanager
def _started(line: Sequence[str], log: Path) -> Iterator[str]:
    """A process of klamm that is ready: what it says of itself."""
    with (
        log.open("w") as said,
        subprocess.Popen(line, stdout=subprocess.PIPE, stderr=said, text=True) as process,
    ):
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            if not ready.startswith("ready "):
                raise RuntimeError(f"klamm did not start: {log.read_text()[-2000:]}")
            yield ready.strip().removeprefix("ready ")
            process.send_signal(signal.SIGTERM)
            process.wait(_STOP_WITHIN)
        finally:
            process.kill()


# Starts a broker from its settings, with a directory of its own, and a file that it writes to.
Broker = Callable[[dict[str, str], Path, Path], AbstractContextManager[object]]


@contextmanager
def from_files(suite: Suite, log: Path, broker: Broker) -> Iterator[dict[str, str]]:
    """A cluster of brokers from files of Kafka's, on a ZooKeeper: its addresses."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="klamm-suite-")))
        doors.certificates(place)
        zookeeper = ZooKeeperServer()
        stack.callback(zookeeper.remove)
        zookeeper.start()
        found = []
        for at in range(suite.brokers):
            listening = doors.listeners(suite)
            settings = doors.settings(suite, at, listening, place)
            settings["zookeeper.connect"] = f"{zookeeper.connect_string}/suite"
            settings["log.dirs"] = str(place / f"logs-{at}")
            stack.enter_context(broker(settings, place / f"broker-{at}", log))
            found.append(listening)
        bootstrap = ",".join(next(iter(each.values())) for each in found)
        doors.add_users(suite, bootstrap)
        words = addresses(bootstrap) | {"certificates": str(place)}
        yield words | {protocol.lower(): address for protocol, address in found[0].items()}


def _klamm_broker(
    settings: dict[str, str], place: Path, log: Path
) -> AbstractContextManager[object]:
    config = place.with_suffix(".properties")
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    line = [sys.executable, "-m", "klamm.cli", "broker", "--config", str(config)]
    return _started(line, log)


def addresses(bootstrap: str) -> dict[str, str]:
    """The words that a suite's settings and texts may have in braces."""
    first = bootstrap.split(",")[0]
    host, _, port = first.rpartition(":")
    quoted = ", ".join(f'"{address}"' for address in bootstrap.split(","))
    tools = f"{sys.executable} -m klamm.cli"
    places = {"bootstrap": bootstrap, "quoted": quoted, "first": first, "host": host, "port": port}
    return places | {"tools": tools}


class Run:
    """One suite in a working directory of its own."""

    def __init__(self, suite: Suite, place: Path, words: Mapping[str, str], logs: Path) -> None:
        self.suite = suite
        self.place = place
        self.logs = logs
        self.env = {name: value.format(**words) for name, value in suite.env.items()}
        self.faults: list[str] = []

    def prepare(self) -> None:
        """Compile or install what takes long, outside of the suite's time."""
        if self.suite.runner == "go":
            packages = [word for word in self.suite.run if word.startswith("./")]
            flags = [word for word in self.suite.run if word.startswith("-tags")]
            into = self.place / ".tests"
            into.mkdir()
            go = fetching.tool("go")
            fetching.command(
                [go, "test", "-mod=mod", "-c", *flags, "-o", f"{into}/", *packages], self.place
            )
        else:
            fetching.environment(self.suite)

    def all(self, known: Sequence[Explanation]) -> list[Outcome]:
        """Every test that is to be run."""
        left_out = [test for each in known if not each.run for test in each.tests]
        if self.suite.runner == "go":
            names = "|".join(f"^{_go_pattern(test)}$" for test in left_out)
            return self._go(["-skip", names] if names else [], "first")
        return self._pytest(_deselecting(left_out), "first")

    def only(self, tests: Sequence[str]) -> list[Outcome]:
        """The tests that these patterns name, and their neighbours in one function."""
        return self.again([Outcome(test, FAILED) for test in tests])

    def again(self, failed: Sequence[Outcome]) -> list[Outcome]:
        """A second attempt of the tests that failed."""
        if not failed:
            return []
        if self.suite.runner == "go":
            tops = sorted({_go_top(each.test) for each in failed if "." in each.test})
            return self._go(["-run", f"^({'|'.join(tops)})$"], "second") if tops else []
        wanted = " or ".join(sorted({_pytest_top(each.test) for each in failed}))
        return self._pytest(["-k", wanted], "second")

    def _go(self, more: Sequence[str], attempt: str) -> list[Outcome]:
        limit = f"{self.suite.within_s}s"
        line = [
            fetching.tool("go"),
            "test",
            "-mod=mod",
            "-json",
            "-vet=off",
            "-count=1",
            "-timeout",
            limit,
        ]
        flags = [word for word in self.suite.run if word.startswith("-")]
        packages = [word for word in self.suite.run if not word.startswith("-")]
        # What comes later wins: a second attempt names its own tests.
        said = self._run([*line, *flags, *more, *packages], attempt)
        return of_go(said.read_text(errors="replace").splitlines())

    def _pytest(self, more: Sequence[str], attempt: str) -> list[Outcome]:
        python = fetching.environment(self.suite)
        file = self.logs / f"{self.suite.name}-{attempt}.xml"
        file.unlink(missing_ok=True)
        line = [str(python), *_PYTEST, f"--junitxml={file}", *more, *self.suite.run]
        self._run(line, attempt)
        return of_junit(file.read_text()) if file.exists() else []

    def _run(self, line: Sequence[str], attempt: str) -> Path:
        """The file with what the suite printed; it is ended with all its children when late."""
        output = self.logs / f"{self.suite.name}-{attempt}.out"
        with (
            output.open("wb") as said,
            subprocess.Popen(
                line,
                cwd=self.place,
                env={**_without_ours(os.environ), **self.env},
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            try:
                process.wait(self.suite.within_s + 30)
            except subprocess.TimeoutExpired:
                self.faults.append(f"it did not end within {self.suite.within_s} s; see {output}")
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        return output


def _without_ours(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would bring our packages into theirs."""
    return {name: value for name, value in env.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def _go_pattern(test: str) -> str:
    """A pattern of an explanation as -skip wants it: without the package."""
    return re.escape(test.partition(".")[2]).replace(r"\*", ".*")


def _go_top(test: str) -> str:
    return re.escape(test.partition(".")[2].split("/")[0])


def _pytest_top(test: str) -> str:
    return test.rpartition("::")[2].split("[")[0]


def _deselecting(tests: Sequence[str]) -> list[str]:
    words = " or ".join(_pytest_top(test) for test in tests)
    return ["-k", f"not ({words})"] if words else []


def run_explained(
    suite: Suite, known: Sequence[Explanation], work: Path, logs: Path, cluster: Cluster
) -> list[Outcome]:
    """The tests that are known to fail, on another cluster; those that are never run are not."""
    source = fetching.fetch(suite)
    tests = [test for each in known if each.run for test in each.tests]
    if not tests:
        return []
    with cluster(suite, logs / f"{suite.name}-kafka.log") as words:
        place = work / suite.name
        fetching.copy(suite, source, place, words)
        going = Run(suite, place, words | {"place": str(place)}, logs)
        going.prepare()
        return going.only(tests)


def run(suite: Suite, known: Sequence[Explanation], work: Path, logs: Path) -> tuple:
    """Both attempts of a suite, the seconds it took, and the faults of the run itself."""
    source = fetching.fetch(suite)
    with cluster(suite, logs / f"{suite.name}-klamm.log") as words:
        place = work / suite.name
        fetching.copy(suite, source, place, words)
        going = Run(suite, place, words | {"place": str(place)}, logs)
        going.prepare()
        began = time.monotonic()
        first = going.all(known)
        failed = [each for each in first if each.result == FAILED]
        unknown = [each for each in failed if not any(e.covers(each.test) for e in known)]
        second = going.again(unknown)
        return first, second, time.monotonic() - began, going.faults
