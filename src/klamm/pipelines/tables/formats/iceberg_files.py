"""Iceberg's file layer on HDFS: through the same client as everything else of klamm.

pyiceberg finds it by its name, in the properties of a table's files.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO

from klamm.pipelines.places.remote import file_system


class PlacesFileIO(PyArrowFileIO):
    """Arrow's, with klamm's way to HDFS."""

    def _initialize_hdfs_fs(self, scheme: str, netloc: str | None) -> Any:
        return file_system(scheme, netloc or "")
