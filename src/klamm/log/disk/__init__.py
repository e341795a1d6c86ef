"""The disk below a log: files, names, checkpoints, locks, and errors."""
