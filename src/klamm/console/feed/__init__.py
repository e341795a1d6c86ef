"""The feed: what is on a page is pushed to it, as differences."""
