"""The cluster as it runs: reads the wishes, picks the adapters, wires all the parts.

`plan` says what was asked for, `stores` opens the store it asks for, `one_process` runs all brokers
on one loop.
"""
