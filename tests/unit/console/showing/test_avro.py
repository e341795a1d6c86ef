"""Avro values, shown by the schemas that `--registry` names."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the console is not installed: klamm[console]")
pytest.importorskip("fastavro", reason="fastavro is not installed: klamm[avro]")

import fastavro

from klamm.cli.cluster.console_options import decoder_of
from klamm.client.registry.framing import framed
from klamm.console.showing.rendering import rendered

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def test_a_framed_value_is_shown_by_its_schema_and_others_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "order-7.avsc").write_text(json.dumps(SCHEMA))
    decode = decoder_of(str(tmp_path))
    written = io.BytesIO()
    fastavro.schemaless_writer(written, SCHEMA, {"id": 41})
    assert rendered(framed(7, written.getvalue()), 2048, "avro", decode) == (
        json.dumps({"id": 41}, indent=2),
        "",
    )
    assert rendered(b"plain", 2048, "avro", decode)[0] == "plain"
    _, fault = rendered(framed(8, b"x"), 2048, "avro", decode)
    assert fault.startswith("not Avro: ")
    assert decoder_of(None) is None
