"""The blocking driver: plain sockets, one caller a connection, answers in the order asked.

Spark's workers are ordinary synchronous processes, so they get ordinary synchronous sockets.
"""
