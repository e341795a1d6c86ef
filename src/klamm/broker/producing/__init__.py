"""Records into logs: appends, their confirmation by all replicas, and a short way for both."""
