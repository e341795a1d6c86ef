"""The command line: `up` runs a cluster, everything else speaks the wire through `client`.

`__main__` holds the table of commands and imports only the one that was asked for, so that
`klamm --help` and a mistyped name cost no more than Python's own start.
"""
