"""Whether a topic may be created, grown or deleted, and what that would write.

The rules are asked in a fixed order, and the first that says no gives the answer: clients and tools
know Kafka's order. Everything a rule looks at is in the facts it is given, so that `validate_only`,
a dry run and the real thing cannot differ.

Left out: authorization (there is no authorizer), and the mutation quota, which the shell asks last.
"""

from klamm.controller.admission.creation import (
    CreationFacts,
    NewTopic,
    Policy,
    Proposal,
    TopicCreation,
    admit_creation,
    duplicates,
    name_faults,
)
from klamm.controller.admission.deletion import (
    DeletionFacts,
    Doomed,
    admit_deletion,
    deletion_request_fault,
)
from klamm.controller.admission.growth import Growth, GrowthFacts, admit_growth

__all__ = [
    "CreationFacts",
    "DeletionFacts",
    "Doomed",
    "Growth",
    "GrowthFacts",
    "NewTopic",
    "Policy",
    "Proposal",
    "TopicCreation",
    "admit_creation",
    "admit_deletion",
    "admit_growth",
    "deletion_request_fault",
    "duplicates",
    "name_faults",
]
