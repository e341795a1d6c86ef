"""The token service of a secured cluster: a key that signs tokens for OAUTHBEARER.

Brokers know its public half as a JWKS file, so a token is checked as those of a real service are:
signature, issuer, audience and times. This page needs `cryptography` and PyJWT (`libraries`).
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from jwt.algorithms import ECAlgorithm

from klamm.model.errors import UsageError

ISSUER: Final = "klamm"
AUDIENCE: Final = "klamm"
LIFE: Final = timedelta(hours=1)
_ALGORITHM: Final = "ES256"
_KEY_ID: Final = "klamm-1"


class Issuer:
    """A signer whose key is at hand."""

    def __init__(self, key: str) -> None:
        try:
            loaded = load_pem_private_key(key.encode(), None)
        except (ValueError, TypeError) as fault:
            raise UsageError("the key that signs the cluster's tokens cannot be read") from fault
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise UsageError("the key that signs the cluster's tokens is of another kind")
        self.key = key
        self._key = loaded

    @classmethod
    def make(cls) -> Issuer:
        """A signer with a new key."""
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())

    @property
    def jwks(self) -> str:
        """The public half, as brokers read it."""
        public = json.loads(ECAlgorithm.to_jwk(self._key.public_key()))
        named = {**public, "kid": _KEY_ID, "use": "sig", "alg": _ALGORITHM}
        return json.dumps({"keys": [named]}, indent=2) + "\n"

    def token(self, user: str, now: datetime, *, life: timedelta = LIFE) -> str:
        """A signed token for a user; with a life below zero it has expired, for tests."""
        ends = now + life
        claims = {
            "sub": user,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "scope": "kafka",
            "iat": int((min(now, ends) - timedelta(seconds=1)).timestamp()),
            "exp": int(ends.timestamp()),
        }
        return jwt.encode(claims, self._key, algorithm=_ALGORITHM, headers={"kid": _KEY_ID})
