"""Questions about the cluster that change nothing: why, what if, how many."""
