"""SCRAM credentials of users and of delegation tokens, as logins look them up.

Users' are told by whoever follows the settings of users; tokens' come of the tokens in the store,
and are computed when somebody first uses one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from klamm.model.scram import ROUNDS_MIN, ScramMechanism
from klamm.security.credentials.scram import (
    Look,
    ScramCredential,
    credentials_of,
    from_password,
    look_of,
)
from klamm.security.credentials.tokens import DelegationToken, token_hmac, token_password
from klamm.security.sasl.scram import TokenLogin
from klamm.security.secret import Secret

_COMPUTED_MAX: Final = 10_000
_SALT_SIZE: Final = 20


class Credentials:
    """Everybody who can log in by SCRAM."""

    def __init__(self, token_secret: Secret | None) -> None:
        self._token_secret = token_secret
        self._users: dict[str, Mapping[ScramMechanism, ScramCredential]] = {}
        self._looks: dict[ScramMechanism, frozenset[Look]] = {}
        self._tokens: dict[str, DelegationToken] = {}
        self._computed: OrderedDict[tuple[ScramMechanism, str], ScramCredential] = OrderedDict()

    @property
    def users(self) -> Mapping[str, Mapping[ScramMechanism, ScramCredential]]:
        """The users with credentials."""
        return self._users

    @property
    def tokens(self) -> Mapping[str, DelegationToken]:
        """The delegation tokens by id."""
        return self._tokens

    @property
    def has_tokens(self) -> bool:
        """Whether delegation tokens are switched on."""
        return self._token_secret is not None

    def looks(self, mechanism: ScramMechanism) -> frozenset[Look]:
        """The looks that users' credentials have; counted anew when users have changed."""
        if mechanism not in self._looks:
            held = (of_user.get(mechanism) for of_user in self._users.values())
            self._looks[mechanism] = frozenset(
                look_of(one) for one in held if one is not None and one.rounds >= ROUNDS_MIN
            )
        return self._looks[mechanism]

    def set_user(self, name: str, texts: Mapping[str, str]) -> None:
        """The settings of a user are these now."""
        self._looks.clear()
        held = credentials_of(texts)
        if held:
            self._users[name] = held
        else:
            self._users.pop(name, None)

    def keep_only_users(self, names: frozenset[str]) -> None:
        """Nobody else has settings any more."""
        self._looks.clear()
        self._users = {name: held for name, held in self._users.items() if name in names}

    def set_token(self, id: str, token: DelegationToken | None) -> None:
        """A token is this now, or gone."""
        if token is None:
            self._tokens.pop(id, None)
            for mechanism in ScramMechanism:
                self._computed.pop((mechanism, id), None)
        else:
            self._tokens[id] = token

    def keep_only_tokens(self, ids: frozenset[str]) -> None:
        """There are no other tokens any more."""
        for gone in self._tokens.keys() - ids:
            self.set_token(gone, None)

    def user(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        return self._users.get(name, {}).get(mechanism)

    def token(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        token, secret = self._tokens.get(token_id), self._token_secret
        if token is None or secret is None:
            return None
        credential = self._computed.get((mechanism, token_id))
        if credential is None:
            credential = self._compute(mechanism, token_id, secret)
        return TokenLogin(token.owner, token.expires_ms, credential)

    def _compute(self, mechanism: ScramMechanism, token_id: str, secret: Secret) -> ScramCredential:
        password = token_password(token_hmac(secret, token_id))
        salt = hmac.digest(secret.reveal().encode(), b"salt " + token_id.encode(), hashlib.sha512)
        made = from_password(mechanism, password, salt[:_SALT_SIZE])
        self._computed[mechanism, token_id] = made
        if len(self._computed) > _COMPUTED_MAX:
            self._computed.popitem(last=False)
        return made
