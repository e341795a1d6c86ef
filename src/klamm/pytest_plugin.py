"""The pytest plugin: real clusters as fixtures."""
