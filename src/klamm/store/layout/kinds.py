"""A table of the kinds of nodes in the store: what each is, and what its fields mean.

For people who look into the store. A path that is in no row is unknown, which is no fault: other
programs may keep their own nodes beside Kafka's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from klamm.model.settings import BROKER_SETTINGS
from klamm.store.layout.protection import SECRETS

HIDDEN: Final = "[hidden]"
_PARTITIONS: Final = {"partitions": "the partitions it is about: topic and number"}
_VERSION: Final = {"version": "the version of this format"}
_CONFIG: Final = {"config": "the settings, all as text; those that are not here have defaults"}
_ACLS: Final = {**_VERSION, "acls": "the entries"}
_CHANGES: Final = "tells every broker that something changed; they remove it after a while"
_NUMBER: Final = re.compile(r"-?\d{1,19}(\.\d{1,19})?")


@dataclass(frozen=True, slots=True)
class NodeKind:
    """One kind of node."""

    title: str
    meaning: str
    fields: Mapping[str, str] = field(default_factory=dict)
    is_notice: bool = False  # its being there announces a change; nobody needs it for long


def _notice(title: str, fields: Mapping[str, str]) -> NodeKind:
    return NodeKind(title, _CHANGES, fields, is_notice=True)


_UNKNOWN: Final = NodeKind("unknown", "no node of Kafka's or klamm's")
_KINDS: Final[Mapping[str, NodeKind]] = {
    "/": NodeKind("root", "where all paths begin"),
    "/controller": NodeKind(
        "controller",
        "the broker that controls the cluster; it goes with that broker's session",
        {
            **_VERSION,
            "brokerid": "the broker that was elected",
            "timestamp": "when, in milliseconds since 1970",
            "kraftControllerEpoch": "-1: no KRaft controller has taken over",
        },
    ),
    "/controller_epoch": NodeKind(
        "controller epoch",
        "how many controllers there have been; its version fences writes of those before",
    ),
    "/brokers": NodeKind("folder", "brokers and topics"),
    "/brokers/ids": NodeKind("folder", "a node for each broker that is alive"),
    "/brokers/ids/*": NodeKind(
        "broker",
        "alive; the node goes with its session, and its czxid is the broker epoch",
        {
            **_VERSION,
            "host": "of the first PLAINTEXT listener, for old clients",
            "port": "of the same",
            "endpoints": "where it takes connections: LISTENER://host:port",
            "listener_security_protocol_map": "which protocol each listener speaks",
            "jmx_port": "-1: none",
            "timestamp": "when it registered, in milliseconds since 1970",
            "rack": "where it stands",
            "features": "what it supports, from and to which version",
        },
    ),
    "/brokers/seqid": NodeKind(
        "sequence", "its version, plus 1000, is the last broker id given out"
    ),
    "/brokers/topics": NodeKind("folder", "a node for each topic"),
    "/brokers/topics/*": NodeKind(
        "topic",
        "its id, and which brokers hold each partition",
        {
            **_VERSION,
            "topic_id": "what tells it from another topic of this name, before or after",
            "partitions": "the brokers of each partition, the preferred leader first",
            "adding_replicas": "of partitions that are being moved: those that come",
            "removing_replicas": "of the same: those that go",
        },
    ),
    "/brokers/topics/*/partitions": NodeKind("folder", "a node for each partition of the topic"),
    "/brokers/topics/*/partitions/*": NodeKind("folder", "one partition"),
    "/brokers/topics/*/partitions/*/state": NodeKind(
        "partition state",
        "who leads a partition and who is in sync; its version is the partition epoch",
        {
            **_VERSION,
            "leader": "the broker that leads; -1: none",
            "leader_epoch": "how often leadership changed",
            "controller_epoch": "of the controller that wrote this",
            "isr": "the brokers that are in sync",
            "leader_recovery_state": "1: the leader was elected uncleanly and has not recovered",
        },
    ),
    "/config": NodeKind("folder", "settings that were changed at run time"),
    "/config/topics": NodeKind("folder", "settings of topics"),
    "/config/topics/*": NodeKind("settings", "settings of a topic", _VERSION | _CONFIG),
    "/config/clients": NodeKind("folder", "quotas of client ids"),
    "/config/clients/*": NodeKind("settings", "quotas of a client id", _VERSION | _CONFIG),
    "/config/users": NodeKind("folder", "quotas and SCRAM credentials of users; for brokers alone"),
    "/config/users/*": NodeKind(
        "settings", "quotas and SCRAM credentials of a user", _VERSION | _CONFIG
    ),
    "/config/users/*/clients": NodeKind("folder", "quotas of a user's client ids"),
    "/config/users/*/clients/*": NodeKind(
        "settings", "quotas of a client id of a user", _VERSION | _CONFIG
    ),
    "/config/brokers": NodeKind("folder", "settings of brokers; for brokers alone"),
    "/config/brokers/*": NodeKind(
        "settings", "settings of a broker, or of all (<default>)", _VERSION | _CONFIG
    ),
    "/config/ips": NodeKind("folder", "quotas of addresses"),
    "/config/ips/*": NodeKind("settings", "quotas of an address", _VERSION | _CONFIG),
    "/config/changes": NodeKind("folder", "notices of changed settings"),
    "/config/changes/*": _notice(
        "notice of settings", {**_VERSION, "entity_path": "what has other settings now"}
    ),
    "/admin": NodeKind("folder", "what the controller is asked to do"),
    "/admin/delete_topics": NodeKind("folder", "topics that are to be deleted"),
    "/admin/delete_topics/*": NodeKind("deletion", "its being there asks for the topic's deletion"),
    "/admin/reassign_partitions": NodeKind(
        "reassignment", "moves that old tools asked for", _VERSION | _PARTITIONS
    ),
    "/admin/preferred_replica_election": NodeKind(
        "election", "elections that old tools asked for", _VERSION | _PARTITIONS
    ),
    "/isr_change_notification": NodeKind(
        "folder", "notices of changed in-sync sets, of old brokers"
    ),
    "/isr_change_notification/*": _notice("notice of in-sync sets", _VERSION | _PARTITIONS),
    "/log_dir_event_notification": NodeKind("folder", "notices of failed disks"),
    "/log_dir_event_notification/*": _notice(
        "notice of a failed disk",
        {**_VERSION, "broker": "whose disk failed", "event": "1: a log directory failed"},
    ),
    "/cluster": NodeKind("folder", "the cluster as a whole"),
    "/cluster/id": NodeKind(
        "cluster id",
        "drawn by the first broker ever; in every meta.properties as well",
        {**_VERSION, "id": "the id"},
    ),
    "/latest_producer_id_block": NodeKind(
        "producer ids",
        "the last block of producer ids that was given out",
        {
            **_VERSION,
            "broker": "the broker that got it",
            "block_start": "its first id",
            "block_end": "its last id",
        },
    ),
    "/feature": NodeKind(
        "features",
        "what the whole cluster has switched on",
        {**_VERSION, "status": "1: in force, 0: not", "features": "each with its level"},
    ),
    "/migration": NodeKind("migration", "how far a migration to KRaft has come"),
    "/consumers": NodeKind("folder", "groups of clients before 0.9"),
    "/kafka-acl": NodeKind("folder", "access control lists of literal names"),
    "/kafka-acl/*": NodeKind("folder", "access control lists of one kind of resource"),
    "/kafka-acl/*/*": NodeKind(
        "access control list",
        "who may do what with a resource",
        _ACLS,
    ),
    "/kafka-acl-extended": NodeKind("folder", "access control lists of other patterns"),
    "/kafka-acl-extended/prefixed": NodeKind(
        "folder", "access control lists of beginnings of names"
    ),
    "/kafka-acl-extended/prefixed/*": NodeKind("folder", "the same, of one kind of resource"),
    "/kafka-acl-extended/prefixed/*/*": NodeKind(
        "access control list",
        "who may do what with resources whose names begin so",
        _ACLS,
    ),
    "/kafka-acl-changes": NodeKind("folder", "notices of changed access control lists"),
    "/kafka-acl-changes/*": _notice("notice of an access control list", {}),
    "/kafka-acl-extended-changes": NodeKind("folder", "notices of changed access control lists"),
    "/kafka-acl-extended-changes/*": _notice("notice of an access control list", {}),
    "/delegation_token": NodeKind("folder", "delegation tokens"),
    "/delegation_token/tokens": NodeKind("folder", "a node for each token; for brokers alone"),
    "/delegation_token/tokens/*": NodeKind(
        "delegation token",
        "who acts for whom; what proves it comes of the brokers' secret, and is not kept",
        {
            **_VERSION,
            "owner": "who acts with it",
            "tokenRequester": "who asked for it",
            "renewers": "who else may renew it",
            "issueTimestamp": "when it was made, in milliseconds since 1970",
            "maxTimestamp": "until when it may be renewed",
            "expiryTimestamp": "until when it holds",
            "tokenId": "its id",
        },
    ),
    "/delegation_token/token_changes": NodeKind("folder", "notices of changed tokens"),
    "/delegation_token/token_changes/*": _notice("notice of a token", {}),
    "/klamm": NodeKind("folder", "klamm's own nodes"),
    "/klamm/forgotten": NodeKind("folder", "copies that an operator gave up"),
    "/klamm/forgotten/*": NodeKind(
        "forgotten copies", "copies that this broker has to drop when it comes back"
    ),
    "/klamm/secret": NodeKind("secret", "what klamm's brokers prove to each other that they know"),
    "/klamm.import": NodeKind("import", "an import that has not ended: the checksum of its file"),
    "/klamm.tickets": NodeKind("folder", "what makes klamm's writes happen once on ZooKeeper"),
    "/klamm.tickets/*": NodeKind("ticket", "goes with the session that writes with it"),
    "/zookeeper": NodeKind("folder", "ZooKeeper's own nodes"),
    "/zookeeper/config": NodeKind("ZooKeeper's servers", "the members of the ensemble"),
    "/zookeeper/quota": NodeKind("folder", "ZooKeeper's quotas"),
}


def kind_of(path: str) -> NodeKind:
    """The kind of the node at a path."""
    if path in _KINDS:
        return _KINDS[path]
    parts = path.split("/")
    for pattern, kind in _KINDS.items():
        wanted = pattern.split("/")
        if len(wanted) == len(parts) and all(
            want in ("*", part) for want, part in zip(wanted, parts, strict=True)
        ):
            return kind
    return _UNKNOWN


def is_secret(path: str) -> bool:
    """Whether what a node holds is for brokers alone."""
    return any(f"{path}/".startswith(f"{root}/") for root in SECRETS)


def payload(path: str, data: bytes | None, *, secrets: bool = False) -> Any:
    """The value of a node to be shown: JSON as it is, other text as text, bytes as hexadecimal.

    What is secret is hidden, unless secrets are wanted.
    """
    if data is None:
        return None
    value = _value(data)
    return value if secrets or not is_secret(path) else _hidden(value)


def _value(data: bytes) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"bytes": data.hex()}
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _hidden(value: Any) -> Any:
    """The value without what may be a credential: numbers and known settings stay."""
    config = value.get("config") if isinstance(value, dict) else None
    if isinstance(config, dict):
        return {**value, "config": {name: _shown(name, text) for name, text in config.items()}}
    if isinstance(value, dict) and "tokenId" in value:
        return value
    return HIDDEN if value else value


def _shown(name: str, text: Any) -> Any:
    definition = BROKER_SETTINGS.get(name)
    is_known = definition is not None and not definition.is_sensitive
    return text if is_known or _NUMBER.fullmatch(str(text)) else HIDDEN
