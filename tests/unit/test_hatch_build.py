"""The library is built when klamm is installed, and its absence stops nobody."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from klamm.protocol.native.library import SOURCE, Unavailable, load

SCRIPT = Path(__file__).parents[2] / "hatch_build.py"
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("KLAMM_NO_NATIVE", raising=False)
    spec = importlib.util.spec_from_file_location("hatch_build", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class App:
    """What hatchling gives a hook to speak with."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def display_warning(self, text: str) -> None:
        self.warnings.append(text)


def run_hook(script: ModuleType, version: str) -> tuple[dict[str, Any], list[str]]:
    hook = script.CustomBuildHook.__new__(script.CustomBuildHook)
    app = App()
    type(hook).app = app
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize(version, data)
    for library in data["force_include"]:
        assert not isinstance(load(Path(library)), Unavailable)
    hook.finalize(version, data, "")
    assert not any(Path(library).exists() for library in data["force_include"])
    return data, app.warnings


@needs_compiler
def test_what_is_built_is_what_is_loaded(script: ModuleType, tmp_path: Path) -> None:
    library = tmp_path / "klamm-records.so"
    script.build(library)
    assert not isinstance(load(library), Unavailable)
    assert [path.name for path in tmp_path.iterdir()] == [library.name]


@needs_compiler
def test_a_wheel_has_the_library_and_its_platform(script: ModuleType) -> None:
    data, warnings = run_hook(script, "standard")
    assert list(data["force_include"].values()) == ["klamm/protocol/native/klamm-records.so"]
    assert data["tag"].startswith("py3-none-")
    assert "manylinux" not in data["tag"]
    assert not data["pure_python"]
    assert not warnings


@needs_compiler
def test_an_editable_installation_has_it_in_the_working_copy(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "klamm-records.so"
    monkeypatch.setattr(script, "LIBRARY", library)
    assert run_hook(script, "editable") == ({"force_include": {}}, [])
    assert not isinstance(load(library), Unavailable)


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({"PATH": "/nonexistent"}, "there is no C compiler"),
        ({"CC": "/nonexistent/cc -O2"}, "/nonexistent/cc cannot be run"),
        ({"CC": "false"}, "false failed"),
        ({"CC": "true"}, "failed"),
        ({"KLAMM_NO_NATIVE": "1"}, "KLAMM_NO_NATIVE is set"),
    ],
)
def test_without_it_the_wheel_is_pure(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], why: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    data, (warning,) = run_hook(script, "standard")
    assert data == {"force_include": {}}
    assert warning.startswith("klamm: records will be checked by hand: ")
    assert why in warning


@needs_compiler
def test_a_broken_source_leaves_what_was_there(script: ModuleType, tmp_path: Path) -> None:
    library, source = tmp_path / "x.so", tmp_path / "x.c"
    library.write_text("before")
    source.write_text(SOURCE.read_text() + "#error\n")
    with pytest.raises(script.Unbuilt, match="failed"):
        script.build(library, source)
    assert library.read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"x.so", "x.c"}
