"""One Kafka client, with two ways to wait.

What is said to a broker and what an answer means is decided without waiting: `conversation`
(frames, correlation, versions), `opening` (what comes before the first request), `security`,
`metadata`, `requests`, `retries`. Two drivers wait for it: the modules beside these on asyncio, for
the fronts, the followers and the outbox; `blocking` on plain sockets, for Spark's workers.
"""
