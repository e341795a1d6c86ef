"""Broker settings about access: who may do what, tokens, and secrets among settings."""

from __future__ import annotations

from typing import Final

from klamm.model.settings.definition import AtLeast, Definition, Kind, setting

_FROM_1: Final = AtLeast(1)

ACCESS: Final[tuple[Definition, ...]] = (
    setting(
        "authorizer.class.name",
        Kind.STRING,
        "",
        "The authorizer: `kafka.security.authorizer.AclAuthorizer` for access control lists, or a "
        "Python callable package.module:name. If empty, everybody may do everything.",
    ),
    setting(
        "super.users",
        Kind.STRING,
        "",
        "Principals that may do everything, such as `User:admin;User:broker`.",
    ),
    setting(
        "allow.everyone.if.no.acl.found",
        Kind.BOOLEAN,
        "false",
        "Whether everybody may use a resource that has no access control list.",
    ),
    setting(
        "delegation.token.secret.key",
        Kind.PASSWORD,
        None,
        "Secret that delegation tokens are made from; the same on all brokers. Empty: no tokens.",
    ),
    setting(
        "delegation.token.master.key",
        Kind.PASSWORD,
        None,
        "The older name of delegation.token.secret.key.",
    ),
    setting(
        "delegation.token.max.lifetime.ms",
        Kind.LONG,
        "604800000",
        "Maximum lifetime of a token, renewals included.",
        _FROM_1,
    ),
    setting(
        "delegation.token.expiry.time.ms",
        Kind.LONG,
        "86400000",
        "How long a token is valid before it must be renewed.",
        _FROM_1,
    ),
    setting(
        "delegation.token.expiry.check.interval.ms",
        Kind.LONG,
        "3600000",
        "How often the controller removes expired tokens.",
        _FROM_1,
    ),
    setting(
        "password.encoder.secret",
        Kind.PASSWORD,
        None,
        "Secret that encrypts passwords in dynamic settings before they are stored.",
    ),
    setting(
        "password.encoder.old.secret",
        Kind.PASSWORD,
        None,
        "The previous secret. Passwords encrypted with it are encrypted again at the next start.",
    ),
    setting(
        "password.encoder.keyfactory.algorithm",
        Kind.STRING,
        None,
        "Algorithm that derives the key; PBKDF2WithHmacSHA512 if not set.",
    ),
    setting(
        "password.encoder.cipher.algorithm",
        Kind.STRING,
        "AES/CBC/PKCS5Padding",
        "Cipher for these passwords: `AES/CBC/PKCS5Padding` or `AES/GCM/NoPadding`.",
    ),
    setting(
        "password.encoder.key.length",
        Kind.INT,
        "128",
        "Length of the key in bits.",
        AtLeast(8),
    ),
    setting(
        "password.encoder.iterations",
        Kind.INT,
        "4096",
        "Iterations of the key derivation.",
        AtLeast(1024),
    ),
)
