"""Message sets: the record formats 0 and 1, which clients from before Kafka 0.11 speak.

The log holds record batches of format 2 only. What an old producer sends is rewritten before it is
appended (`up`), what an old consumer reads before it is sent (`down`).
"""
