"""Tables that follow topics: Parquet, Delta or Iceberg, each record in them once."""
