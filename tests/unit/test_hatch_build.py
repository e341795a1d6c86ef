"""The library is built when klamm is installed, and its absence stops nobody."""

from __future__ import annotations

import importlib.util
import shutil
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

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


def wheel(place: Path, version: str = "standard") -> zipfile.ZipFile:
    (path,) = WheelBuilder(str(SCRIPT.parent)).build(directory=str(place), versions=[version])
    return zipfile.ZipFile(path)


@needs_compiler
def test_what_is_built_is_what_is_loaded(script: ModuleType, tmp_path: Path) -> None:
    library = tmp_path / "klamm-records.so"
    script.build(library)
    assert not isinstance(load(library), Unavailable)
    assert [path.name for path in tmp_path.iterdir()] == [library.name]


@needs_compiler
def test_a_wheel_has_the_library_and_its_platform(script: ModuleType, tmp_path: Path) -> None:
    with wheel(tmp_path) as built:
        name = Path(str(built.filename)).name
        library = built.extract("klamm/protocol/native/klamm-records.so", tmp_path)
        assert "klamm/protocol/native/records.c" in built.namelist()
        (facts,) = (name for name in built.namelist() if name.endswith(".dist-info/WHEEL"))
        metadata = built.read(facts).decode()
    assert "-py3-none-" in name
    assert not name.endswith("-any.whl")
    assert "manylinux" not in name
    assert "Root-Is-Purelib: false" in metadata
    assert not isinstance(load(Path(library)), Unavailable)


def test_a_wheel_without_it_is_pure(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the working copy has one."""
    monkeypatch.setenv("KLAMM_NO_NATIVE", "1")
    with wheel(tmp_path) as built:
        assert str(built.filename).endswith("-py3-none-any.whl")
        assert not [name for name in built.namelist() if name.endswith(".so")]


def test_a_source_distribution_has_what_it_takes(tmp_path: Path) -> None:
    (path,) = SdistBuilder(str(SCRIPT.parent)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(path) as built:
        names = [name.partition("/")[2] for name in built.getnames()]
    assert {"hatch_build.py", "src/klamm/protocol/native/records.c"} <= set(names)
    assert not [name for name in names if name.endswith(".so")]


class _App:
    """What hatchling gives a hook to speak with."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def display_warning(self, text: str) -> None:
        self.warnings.append(text)


def run_hook(script: ModuleType, version: str) -> tuple[dict[str, Any], list[str]]:
    app = _App()
    hook = script.CustomBuildHook(str(SCRIPT.parent), {}, None, None, "", "wheel", app)
    data: dict[str, Any] = {"force_include": {}}
    hook.initialize(version, data)
    hook.finalize(version, data, "")
    assert not any(Path(library).exists() for library in data["force_include"])
    return data, app.warnings


@needs_compiler
def test_an_editable_installation_has_it_in_the_working_copy(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "klamm-records.so"
    monkeypatch.setattr(script, "LIBRARY", library)
    assert run_hook(script, "editable") == ({"force_include": {}}, [])
    assert not isinstance(load(library), Unavailable)


@pytest.mark.parametrize("version", ["standard", "editable"])
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
def test_its_absence_is_told_and_fails_nothing(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    why: str,
    version: str,
) -> None:
    monkeypatch.setattr(script, "LIBRARY", tmp_path / "klamm-records.so")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    data, (warning,) = run_hook(script, version)
    assert data == {"force_include": {}}
    assert warning.startswith("klamm: records will be checked by hand: ")
    assert why in warning
    assert not list(tmp_path.iterdir())


@needs_compiler
def test_a_broken_source_leaves_what_was_there(script: ModuleType, tmp_path: Path) -> None:
    library, source = tmp_path / "x.so", tmp_path / "x.c"
    library.write_text("before")
    source.write_text(SOURCE.read_text() + "#error\n")
    with pytest.raises(script.Unbuilt, match="failed"):
        script.build(library, source)
    assert library.read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"x.so", "x.c"}
