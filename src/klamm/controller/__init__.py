"""Decides what the cluster looks like next. Pure: events in, decisions out."""
