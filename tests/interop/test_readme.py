"""What the README promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_python_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(from confluent_kafka.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    assert "is the controller" in capsys.readouterr().out


def test_its_links_lead_somewhere() -> None:
    root = Path(__file__).parents[2]
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert targets
    assert [target for target in targets if not (root / target).exists()] == []
