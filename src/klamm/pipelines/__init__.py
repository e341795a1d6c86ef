"""PySpark sources, transforms and jobs. Speaks only the wire."""
