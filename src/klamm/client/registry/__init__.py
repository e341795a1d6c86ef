"""Values with a schema's number in front, as schema registries frame them, and their schemas.

Needs `fastavro` (the extra `avro`). Waits for a registry in the calling thread.
"""
