"""Reads command lines by the signatures of the functions that answer them.

A parser of its own, because a command must not take longer to start than to do its work: the
libraries that read signatures import ten times as much as a request to a broker needs.
"""
