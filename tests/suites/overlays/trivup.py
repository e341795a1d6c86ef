"""The program that starts brokers for the suite; here they run already."""

import pytest


class KafkaCluster:
    """A cluster that the suite would start itself."""

    def __init__(self, *args, **kwargs):
        pytest.skip("wants a cluster of its own to start")
