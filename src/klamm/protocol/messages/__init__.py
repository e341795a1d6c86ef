"""The messages, one module an API, each with a `Request` and a `Response`.

`klamm.protocol.schema` says how to read a declaration. Nested classes have Kafka's names; where a
request and its answer both use one, that of the answer ends in `Response`.
"""
