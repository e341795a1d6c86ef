"""Classic consumer groups: members join and sync in generations, and one of them assigns."""
