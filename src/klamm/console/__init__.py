"""The console: a cluster's life in a browser. Speaks to the cluster only through `client`.

One `Reader` keeps a `Picture` for all viewers. A view is a function from the picture to plain
values, and these values are the page, its JSON twin and its live stream alike (`views/`). What
changes something goes through a plan first (`deeds`), with the connection of whoever asks.
"""
