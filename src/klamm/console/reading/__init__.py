"""Reading: one picture of the cluster for all viewers, and what it may cost."""
