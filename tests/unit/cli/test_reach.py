"""Every command that talks to a cluster takes the properties of a client."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from klamm.cli.__main__ import COMMANDS
from klamm.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, new_app
from klamm.cli.parsing.app import App, Command
from klamm.cli.reach import Reach

# They run a cluster of their own, or look at files of this machine only; so does `store`.
ALONE = {"up", "demo", "doctor", "version", "spark doctor", "spark offsets-from-checkpoint"} | {
    f"spark {verb}" for verb in ("serve", "status", "stop")
}
# They look at this machine, or take addresses of their own.
LOCAL = {"store", "profile", "data", "completion", "broker", "cluster"}
ARCHIVES = {f"archive {verb}" for verb in ("list", "show", "verify", "vacuum", "register")}
TABLES = {f"table {verb}" for verb in ("files", "compact", "vacuum")}


def _commands() -> Iterator[tuple[str, Command]]:
    for name, place in COMMANDS.items():
        module = import_module(f"klamm.cli.{place.module}")
        for app in filter(lambda made: isinstance(made, App), vars(module).values()):
            for verb, command in app.commands.items():
                yield (name if app.alone else f"{name} {verb}"), command


def test_every_command_that_talks_to_a_cluster_takes_command_config() -> None:
    seen = set()
    for name, command in _commands():
        if name in ALONE | ARCHIVES | TABLES or name.split()[0] in LOCAL:
            continue
        flags = {flag for parameter in command.params for flag in parameter.flags}
        assert {"--bootstrap-server", "-b", "--command-config", "-X"} <= flags, name
        seen.add(name)
    assert {"topics create", "produce", "audit", "archive", "spark shell"} <= seen


def test_sources_are_files_and_single_properties(tmp_path: Path) -> None:
    file = tmp_path / "a=b.properties"
    file.write_text("client.id=nightly\nsecurity.protocol=SSL\n")
    reach = Reach("h:1", (str(file), "client.id=by hand", "ssl.ca.location=/x=y"))
    found = reach.settings
    assert found is not None
    assert (found.client_id, found.security.trusted) == ("by hand", "/x=y")
    blocking = reach.connection(patience_s=2)
    assert blocking.patience_ms == 2000
    assert blocking.security == found.security
    assert Reach("h:1").settings is None


def test_properties_without_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    reach = Reach("h:1", ("linger.ms=3", "client.id=x"))
    assert reach.settings is not None
    assert "have no effect here: linger.ms" in caplog.text
    assert "client.id" not in caplog.text


def test_a_file_made_for_a_cluster_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KLAMM_BOOTSTRAP_SERVER", raising=False)
    file = tmp_path / "admin.properties"
    file.write_text("bootstrap.servers=there:1\n")
    seen: list[str] = []
    app = new_app("a test")

    @app.command()
    def look(bootstrap_server: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
        seen.append(bootstrap_server.servers)

    for args in ([], ["-X", str(file)], ["-X", str(file), "-b", "127.0.0.1:9092"]):
        app(args=args, prog_name="look")
    monkeypatch.setenv("KLAMM_COMMAND_CONFIG", str(file))
    app(args=[], prog_name="look")
    assert seen == [DEFAULT_BOOTSTRAP.servers, "there:1", "127.0.0.1:9092", "there:1"]
