"""A library is used when it was built from the source beside it, and never otherwise."""

from __future__ import annotations

import _ctypes
import shutil
import subprocess
from ctypes import PyDLL
from pathlib import Path

import pytest

from klamm.protocol.native.library import LIBRARY, SOURCE, Unavailable, load

needs_library = pytest.mark.skipif(not LIBRARY.exists(), reason="the library was not built")


def test_none_is_there(tmp_path: Path) -> None:
    assert load(tmp_path / "none.so") == Unavailable("it was not built when klamm was installed")


@needs_library
def test_it_is_loaded() -> None:
    assert isinstance(load(), PyDLL)


@needs_library
def test_one_of_other_sources_is_not_used(tmp_path: Path) -> None:
    source = tmp_path / "records.c"
    source.write_bytes(SOURCE.read_bytes() + b"\n")
    assert load(source=source) == Unavailable("it was built from another version of klamm")


@pytest.mark.parametrize("name", ["garbage", "another", "sourceless"])
def test_what_does_not_load_is_done_without(tmp_path: Path, name: str) -> None:
    library, source = tmp_path / "x.so", SOURCE
    library.write_bytes(b"\x7fELF garbage")
    if name == "another":
        library = Path(_ctypes.__file__)
    elif name == "sourceless":
        library, source = LIBRARY, tmp_path / "none.c"
    found = load(library, source)
    assert isinstance(found, Unavailable)
    assert found.why.startswith(("it does not load: ", "it was not built"))


@needs_library
def test_it_can_be_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KLAMM_NO_NATIVE", "1")
    assert load() == Unavailable("KLAMM_NO_NATIVE is set")


def test_no_byte_outside_is_read(tmp_path: Path) -> None:
    """Damaged records under the sanitizers; for longer, call the program with a larger number."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    program = tmp_path / "fuzz"
    harness = Path(__file__).with_name("fuzz_records.c")
    built = subprocess.run(
        [
            compiler, "-g", "-O1", "-std=c11", "-Wall", "-Wextra", "-Werror",
            "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
            f'-DRECORDS_C="{SOURCE}"', "-o", str(program), str(harness),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if built.returncode and "san" in built.stderr and "error:" not in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert not built.returncode, built.stderr
    done = subprocess.run([str(program), "30000", "7"], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert int(done.stdout.split()[0]) > 1000
