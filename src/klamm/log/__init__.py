"""One partition's records on disk."""
