"""What the docs tell a reader to type exists."""

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
sys.path.insert(0, str(TOOLS))

import check_docs  # noqa: E402
import generate_cli_reference  # noqa: E402
from commands import all_leaves  # noqa: E402

LEAVES = {leaf.words: leaf for leaf in all_leaves()}


def test_every_command_option_target_and_link_in_the_docs_exists() -> None:
    assert check_docs.check() == []


def test_the_reference_of_commands_is_not_stale() -> None:
    tool = [sys.executable, str(TOOLS / "generate_cli_reference.py"), "--check"]
    ran = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("typed", "fault"),
    [
        ("klamm topics create orders --partitions 3", None),
        ("klamm topics create orders --partition 3", "has no option --partition"),
        ("klamm topics destroy orders", "klamm topics has no command destroy"),
        ("klamm toppics list", "klamm has no command toppics"),
        ("klamm archive orders --to DIR", None),
        ("klamm consume orders | head -3", None),
        ("make up", None),
        ("make upp", "make has no target upp"),
        ('make up ARGS="--brokers 5"', None),
    ],
)
def test_a_command_that_cannot_be_typed_is_named(typed: str, fault: str | None) -> None:
    found = check_docs.faults(typed, LEAVES, {"up"})
    assert [fault in text for text in found] == ([True] if fault else [])


def test_only_what_begins_like_a_command_is_looked_at() -> None:
    page = "text `klamm up` and `broker`\n\n```\n$ klamm topics list\nready\n```\n"
    assert [command for _, command in check_docs.typed(page)] == ["klamm up", "klamm topics list"]


def test_a_dead_link_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("[here](page.md#top) [gone](other.md) [web](https://example.org)")
    assert list(check_docs.dead_links(page, tmp_path)) == ["dead link other.md"]


def test_the_reference_has_long_and_short_names() -> None:
    assert "| `--output`, `-o` `text\\|json` | `text` |" in generate_cli_reference.page()
