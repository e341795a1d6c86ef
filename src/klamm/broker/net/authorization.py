"""Tells callers what they may do, as bit fields: everything, for there is no authorizer.

Bit n stands for the operation with code n: read 3, write 4, create 5, delete 6, alter 7,
describe 8, cluster action 9, describe configs 10, alter configs 11, idempotent write 12.
"""

from __future__ import annotations

from typing import Final

NOT_ASKED: Final = -(2**31)
TOPIC_OPERATIONS: Final = 0xDF8
GROUP_OPERATIONS: Final = 0x148
CLUSTER_OPERATIONS: Final = 0x1FA0

# Only who calls itself so may write to an internal topic, as in Kafka; and here, only a broker.
INTERNAL_WRITER: Final = "__admin_client"

# Kafka's words for a cluster that keeps no access control lists.
NO_AUTHORIZER: Final = "No Authorizer is configured."
