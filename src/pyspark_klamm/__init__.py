"""Found by PySpark, which imports every `pyspark_*` module when it looks for a format's name."""

from klamm.pipelines.source.datasource import KlammDataSource as DefaultSource

__all__ = ["DefaultSource"]
