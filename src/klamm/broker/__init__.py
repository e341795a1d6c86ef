"""The asyncio shell: listens, routes, runs the cores and does what they decide."""
