"""The server under test, as the suite's fixtures want to hold it: it runs outside of them."""


class ExternalService:
    """A broker at an address that somebody else starts and stops."""

    def __init__(self, host, port):
        self.host = host
        self.port = port

    def open(self):
        """Nothing has to be opened."""

    def close(self):
        """Nothing has to be closed."""

    def stop(self):
        """It goes on for the next module."""

    def dump_logs(self):
        """Its log is not here."""

    def wait_for(self, pattern, timeout=30):
        """It serves already."""
        return True


class SpawnedService:
    """A broker that the suite would start itself, from a download of Apache Kafka."""

    def __init__(self, *args, **kwargs):
        import pytest

        pytest.skip("wants a Kafka of its own to start")
