"""Names the principal behind a certificate, on a listener with TLS alone."""

from __future__ import annotations

from klamm.model.errors import Refused
from klamm.security.principals import ANONYMOUS, USER, Principal
from klamm.security.tls.mapping import MappingRules
from klamm.security.tls.names import name_text


def certificate_principal(subject: bytes | None, rules: MappingRules) -> Principal | Refused:
    """The principal of a subject in DER; None: no certificate was shown, and none was required."""
    if subject is None:
        return ANONYMOUS
    name = name_text(subject)
    if isinstance(name, Refused):
        return name
    mapped = rules.apply(name)
    if isinstance(mapped, Refused):
        return mapped
    # Rules can make nothing of a name, and nobody must become somebody by it.
    return Principal(USER, mapped) if mapped else Refused(f"the rules leave nothing of {name}")
