"""Record batches to Arrow frames and back, without an object a record."""
