"""The packages that formats need, and what they must be told about stores."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from klamm.installing import install_command
from klamm.model.errors import UsageError
from klamm.pipelines.places.remote import Place, endpoint_of


def require_delta() -> None:
    """Says what is missing for Delta."""
    _require("deltalake", "delta", "a Delta table")


def require_iceberg() -> None:
    """Says what is missing for Iceberg."""
    _require("pyiceberg", "iceberg", "an Iceberg table")


def _require(package: str, extra: str, what: str) -> None:
    if find_spec(package) is None:
        raise UsageError(
            f"{what} needs {package}, which is not installed: `{install_command(extra)}`"
        )


def delta_options(place: Place) -> dict[str, str] | None:
    """The options that Delta's Rust must be told beside what the environment says."""
    if isinstance(place, Path):
        return None
    if place.scheme != "s3":
        raise UsageError(f"Delta tables lie in directories or on S3, not on {place.scheme}")
    if endpoint_of(os.environ).startswith("http://"):
        return {"allow_http": "true"}
    return {}


def iceberg_properties(place: Place) -> dict[str, str]:
    """The options of Iceberg's file layer; it takes credentials from the environment."""
    if isinstance(place, Path):
        return {}
    if place.scheme != "s3":
        return {"py-io-impl": "klamm.pipelines.tables.formats.iceberg_files.PlacesFileIO"}
    found = {"s3.region": os.environ.get("AWS_REGION", "us-east-1")}
    if endpoint := endpoint_of(os.environ):
        found["s3.endpoint"] = endpoint
    return found
