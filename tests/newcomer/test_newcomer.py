"""A newcomer with nothing but the pages: README, tutorial and how-tos, word for word.

`make newcomer` clones the repository, lets `make install` and the pages' own `pip install` lines
make an environment from nothing, and follows every page in it. `make test` follows the first steps
of the README in the environment that is there, and looks that no block of any page is forgotten.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from newcomer.pages import ROOT, blocks, plans
from newcomer.terminals import clean

pytestmark = pytest.mark.interop
FULL = bool(os.environ.get("KLAMM_NEWCOMER"))
PAGES = [
    "README.md",
    "docs/tutorial/first-hour.md",
    *sorted(
        f"docs/how-to/{page.name}"
        for page in (ROOT / "docs/how-to").glob("*.md")
        if page.name != "index.md"
    ),
]
ALONE = ["unshare", "-rnmpf", "--mount-proc", "--kill-child"]


def follow(clone: Path, home: Path, page: str, *more: str) -> None:
    script = ROOT / "tests" / "newcomer" / "follow.py"
    done = subprocess.run(
        [*ALONE, sys.executable, script, clone, home, page, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def alone() -> None:
    """Skips where one cannot have a network of one's own, in which the default ports are free."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        pytest.skip("unshare and ip are not installed")
    tried = subprocess.run(
        [*ALONE, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"no network of one's own here: {tried.stderr.strip()}")


def test_every_block_of_every_page_is_typed_or_has_a_reason() -> None:
    known = plans()
    assert sorted(known) == sorted(PAGES)
    for page, plan in known.items():
        numbers = {block.number for block in blocks(page)}
        assert plan.left_out.keys() | plan.before.keys() | plan.codes.keys() <= numbers, page
        lines = {line for block in blocks(page) for line in block.text.splitlines()}
        assert plan.lines_left_out.keys() <= lines, page


def test_a_page_tells_how_to_get_what_it_needs() -> None:
    for page, plan in plans().items():
        told = (ROOT / page).read_text()
        extras = re.findall(r"pip install (?:-e )?'\.\[([a-z,]+)\]'", told)
        found = {extra for listed in extras for extra in listed.split(",")}
        assert set(plan.needs) <= found, page


@pytest.mark.usefixtures("alone")
def test_the_first_minute(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    for entry in ("Makefile", "pyproject.toml", "src", "hatch_build.py"):
        (clone / entry).symlink_to(ROOT / entry)
    (clone / ".venv").symlink_to(sys.prefix)
    # What is installed counts as fresh: nothing can be fetched from a network of one's own.
    fresh = ("--make", "make -o .venv/.installed", "--until", "2")
    follow(clone, tmp_path / "home", "README.md", *fresh)


@pytest.fixture(scope="session")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which everything was installed that the pages say."""
    place = tmp_path_factory.mktemp("newcomer")
    subprocess.run(["git", "clone", "-q", ROOT, place / "clone"], check=True)
    (place / "home" / "tmp").mkdir(parents=True)
    network = {name: value for name, value in os.environ.items() if _is_of_the_network(name)}
    environment = clean(place / "home") | network | {"PIP_NO_CACHE_DIR": "1"}
    told = "\n".join(block.text for page in PAGES for block in blocks(page))
    installs = re.findall(r"^pip install .*$", told, re.MULTILINE)
    installs += ["pip install confluent-kafka pytest"]  # said in the README's text
    installs = [line.partition("#")[0].strip() for line in installs]
    for typed in ("make install", *dict.fromkeys(installs)):
        shell = typed if typed.startswith("make") else f". .venv/bin/activate; {typed}"
        subprocess.run(["bash", "-ec", shell], cwd=place / "clone", env=environment, check=True)
    return place / "clone"


def _is_of_the_network(name: str) -> bool:
    return name.lower().endswith("_proxy") or name.startswith(("PIP_", "SSL_", "REQUESTS_"))


@pytest.mark.skipif(not FULL, reason="takes minutes and a network; make newcomer")
@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("page", PAGES)
def test_a_page(cloned: Path, tmp_path: Path, page: str) -> None:
    # Each page finds the clone as it was: nobody else's data directories lie in it.
    subprocess.run(["git", "clean", "-fdxq", "-e", ".venv"], cwd=cloned, check=True)
    follow(cloned, tmp_path / "home", page)
