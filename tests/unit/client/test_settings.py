"""Which properties of an admin client are honoured, and which refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from klamm.client.settings import ClientSettings, of_properties, read
from klamm.model.errors import UsageError


def test_without_a_file_the_defaults_are_kafkas() -> None:
    assert read(None) == ClientSettings(timeout_s=60, request_timeout_s=30)


def test_a_file_names_the_client_and_its_patience(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# for the nightly job\nclient.id = nightly\nrequest.timeout.ms=5000\n"
        "default.api.timeout.ms=7000\nsecurity.protocol=PLAINTEXT\nretries=3\n"
    )
    assert read(str(file)) == ClientSettings("nightly", 7.0, 5.0)


@pytest.mark.parametrize(
    ("texts", "timeout_s", "request_timeout_s"),
    [
        ({"request.timeout.ms": "90000"}, 90, 90),
        ({"default.api.timeout.ms": "1000"}, 1, 1),
    ],
)
def test_a_request_does_not_outlast_its_call(
    texts: dict[str, str], timeout_s: float, request_timeout_s: float
) -> None:
    found = of_properties(texts)
    assert (found.timeout_s, found.request_timeout_s) == (timeout_s, request_timeout_s)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"security.protocol": "SASL_SSL"}, "security.protocol=SASL_SSL needs sasl.username"),
        ({"sasl.mechanism": "PLAIN", "ssl.key.password": "x"}, "sasl.mechanism, ssl.key.password"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms must be a number"),
        (
            {"request.timeout.ms": "2000", "default.api.timeout.ms": "1000"},
            "no smaller than request.timeout.ms: 1000 < 2000",
        ),
    ],
)
def test_what_cannot_be_had_is_refused(texts: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        of_properties(texts)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*: No such file"):
        read(str(tmp_path / "none"))
