"""The program of the tutorial, on the Spark that is there already."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "first-hour.md"


def test_it_adds_up_the_sales(
    spark: SparkSession,
    bootstrap: str,
    topic: Callable[..., str],
    fill: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    sales = topic()
    fill(sales, [(0, b"ada", b"12"), (1, b"grace", b"30"), (0, b"ada", b"8")])
    (program,) = re.findall(
        r'```python title="read_sales.py"\n(.*?)```', PAGE.read_text(), re.DOTALL
    )
    here = program.replace("127.0.0.1:9092", bootstrap).replace('"sales"', f'"{sales}"')
    exec(compile(here, PAGE.name, "exec"), {})
    printed = re.findall(r"\| *(\w+)\| *(\d+)\|", capsys.readouterr().out)
    assert sorted(printed) == [("ada", "20"), ("grace", "30")]
