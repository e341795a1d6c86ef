"""The files a log consists of, their batches and their indexes."""
