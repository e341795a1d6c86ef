"""The Spark data source and sink: options, offsets, splits, streams."""
