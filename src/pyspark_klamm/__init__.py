"""Found by PySpark, which imports every `pyspark_*` module when it looks for a format's name."""

from klamm.pipelines.source import KlammDataSource as DefaultSource

__all__ = ["DefaultSource"]
