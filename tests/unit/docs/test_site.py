"""The site has every page, and the decisions are numbered without holes."""

from pathlib import Path

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"


def test_every_page_is_in_the_navigation() -> None:
    listed = {line.rpartition(" ")[2] for line in (ROOT / "mkdocs.yml").read_text().splitlines()}
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert pages - listed == set()


def test_every_page_is_of_one_kind() -> None:
    kinds = {page.relative_to(DOCS).parts[0] for page in DOCS.rglob("*.md")}
    assert kinds == {"index.md", "tutorial", "how-to", "reference", "explanation"}


def test_decisions_are_numbered_without_holes_and_listed() -> None:
    pages = sorted((DOCS / "explanation" / "adr").glob("0*.md"))
    assert [int(page.name[:4]) for page in pages] == list(range(1, len(pages) + 1))
    index = (DOCS / "explanation" / "adr" / "index.md").read_text()
    assert [page.name for page in pages if f"({page.name})" not in index] == []


def test_every_how_to_is_on_its_first_page() -> None:
    index = (DOCS / "how-to" / "index.md").read_text()
    pages = {page.name for page in (DOCS / "how-to").glob("*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in index} == set()
