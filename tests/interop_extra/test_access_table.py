"""The table of access on Apache Kafka 3.9: each API refused without its right and served with it.

klamm and Kafka have the same settings, users and lists, which are set over the wire by a super
user; another user asks. The cases are those of `interop/test_access.py`. Both have to refuse and
to serve as the table says, and their answers have to be equal. What differs on purpose is in
`access_table.toml`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import tomllib
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest

from interop.access_table import (
    REQUESTS,
    TOPIC,
    Site,
    background,
    cases,
    check,
    name_of,
    named,
)
from interop_extra.differential import judging
from interop_extra.differential.dice import Asked
from interop_extra.differential.trees import comparable, differences, to_tree
from interop_extra.kafka_server import kafka_server
from klamm import Cluster
from klamm.client.aio.connection import Connection
from klamm.client.security.settings import Security
from klamm.model.errors import ErrorCode
from klamm.protocol import codec
from klamm.protocol import fetch as fetching
from klamm.protocol import produce as producing
from klamm.protocol.apis import ApiKey, Versions
from klamm.protocol.messages import (
    create_acls,
    create_delegation_token,
    create_topics,
    delete_acls,
    delete_topics,
    describe_delegation_token,
    expire_delegation_token,
    metadata,
)
from klamm.security.authorization.acls import (
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)
from klamm.security.authorization.apis import APIS
from klamm.security.authorization.needs import Need, Option
from unit.store.zookeeper_server import ZooKeeperServer

TABLE = Path(__file__).with_name("access_table.toml")
ROOT, TRIED = "root", "tried"
LISTENER = "SASL_PLAINTEXT"
SETTINGS = {
    "inter.broker.listener.name": LISTENER,
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{ROOT}" password="{ROOT}" user_{ROOT}="{ROOT}" user_{TRIED}="{TRIED}";'
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": f"User:{ROOT}",
    "delegation.token.secret.key": "shh",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "auto.leader.rebalance.enable": "false",
}
# What passes by itself is asked again, as every client does.
PASSING = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
PASSED_WITHIN_S = 10.0


def signed_in(user: str) -> Security:
    return Security(protocol=LISTENER, mechanism="PLAIN", username=user, password=user)


@dataclass
class Locked(Site):
    """A broker behind a login; its lists are set by its super user."""

    address: str
    versions: dict[int, Versions] = field(default_factory=dict)

    def set(self, rights: dict[Pattern, set[Operation]]) -> None:
        whose = f"User:{TRIED}"
        anything = (ResourceType.ANY, None, PatternType.ANY, whose, None)
        filters = [delete_acls.DeleteAclsFilter(*anything, Operation.ANY, Permission.ANY)]
        removed = self.ask(ApiKey.DELETE_ACLS, 3, delete_acls.Request(filters), user=ROOT)
        assert [result.error_code for result in removed.filter_results] == [0], removed
        wanted = [
            create_acls.AclCreation(p.type, p.name, p.pattern, whose, "*", op, Permission.ALLOW)
            for p, operations in rights.items()
            for op in operations
        ]
        added = self.ask(ApiKey.CREATE_ACLS, 3, create_acls.Request(wanted), user=ROOT)
        assert not any(result.error_code for result in added.results), added

    def ask(self, key: int, version: int, request: Any, *, user: str = TRIED) -> Any:
        deadline = time.monotonic() + PASSED_WITHIN_S
        while True:
            answer = asyncio.run(self._exchange(key, version, request, user))
            passes = PASSING.intersection(_codes(to_tree(answer, key, version)))
            if not passes or time.monotonic() > deadline:
                return answer

    async def _exchange(self, key: int, version: int, request: Any, user: str) -> Any:
        host, _, port = self.address.rpartition(":")
        security = signed_in(user)
        connection = await Connection.open(host, int(port), "table", security=security)
        try:
            self.versions = dict(connection.versions)
            answer = await connection.exchange(key, version, _encoded(key, version, request))
            return codec.decode_response(key, version, answer)
        finally:
            await connection.close()


def _encoded(key: int, version: int, request: Any) -> Any:
    match key:
        case ApiKey.PRODUCE:
            return producing.encode_request(version, request)
        case ApiKey.FETCH:
            return (fetching.encode_request(version, request),)
        case _:
            return (codec.encode_request(key, version, request),)


def _codes(tree: Any) -> Iterator[int]:
    """Every error code of an answer."""
    if isinstance(tree, dict):
        yield from (value for name, value in tree.items() if name.endswith("error_code"))
        tree = list(tree.values())
    if isinstance(tree, list):
        for each in tree:
            yield from _codes(each)


@dataclass
class Pair:
    """Kafka and klamm, with the same topic, group and transaction, and one judge."""

    kafka: Locked
    klamm: Locked
    judge: judging.Judge
    cases: set[tuple[int, str, int]] = field(default_factory=set)

    def allow(self, *options: tuple[Option, str]) -> None:
        for site in (self.kafka, self.klamm):
            site.allow(*options)

    def compare(self, asked: Asked, kafka: Any, klamm: Any) -> list[str]:
        """What differs without a reason, in words."""
        trees = [comparable(to_tree(each, asked.key, asked.version)) for each in (kafka, klamm)]
        _trace(asked, *trees)
        left = self.judge.look(asked, differences(*trees))
        return [f"{asked.tree}: {d.path}: Kafka {d.kafka}, klamm {d.klamm}" for d in left]


def _trace(asked: Asked, kafka: Any, klamm: Any) -> None:
    """A line for each request with both answers, where somebody asked for a trace."""
    place = os.environ.get("KLAMM_DIFFERENTIAL_TRACE")
    if place:
        with Path(place).open("a") as file:
            file.write(json.dumps({**asked.as_json(), "kafka": kafka, "klamm": klamm}) + "\n")


@pytest.fixture(scope="module")
def pair(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    place = tmp_path_factory.mktemp("access")
    ours = SETTINGS | {
        "listeners": f"{LISTENER}://127.0.0.1:0",
        "klamm.ledger.topic.enable": "false",  # a topic that Kafka does not have
    }
    login = {
        "security.protocol": LISTENER,
        "sasl.mechanism": "PLAIN",
        "sasl.username": ROOT,
        "sasl.password": ROOT,
    }
    connect = f"{zookeeper.connect_string}/access"
    known = [
        *judging.documented(TABLE.read_text()),
        # Those of single APIs are about requests at random, and might hide what matters here.
        *(d for d in judging.documented(judging.TABLE.read_text()) if d.api == "*"),
    ]
    with (
        Cluster(1, settings=ours) as cluster,
        kafka_server(
            place / "data", connect, place / "output", SETTINGS, protocol=LISTENER, login=login
        ) as address,
    ):
        made = Pair(Locked(address), Locked(cluster.bootstrap_servers), judging.Judge(known))
        for site in (made.kafka, made.klamm):
            _furnish(site)
        yield made


def _furnish(site: Locked) -> None:
    site.allow_everything()
    topic = create_topics.CreatableTopic(TOPIC, 1, 1)
    made = site.ask(ApiKey.CREATE_TOPICS, 7, create_topics.Request([topic], 30_000))
    assert [each.error_code for each in made.topics] == [0], made
    site.furnish()


EXCEPTIONS = tomllib.loads(TABLE.read_text())
UNASKED = {entry["api"]: entry["why"] for entry in EXCEPTIONS["unasked"]}
UNHELD = {
    (each["api"], each["case"], each["version"]): each["why"] for each in EXCEPTIONS["unheld"]
}
CASES = [case for case in cases() if case.values[0] < 1000]


@pytest.mark.parametrize(("key", "need", "version"), CASES)
def test_kafka_refuses_and_serves_by_the_same_table(
    pair: Pair, key: int, need: Need, version: int
) -> None:
    api = APIS[key]
    pair.cases.add((key, need.case, version))
    if api.name in UNASKED:
        pytest.skip(UNASKED[api.name])
    version = min(version, pair.kafka.versions[key].high)
    if version < need.low:
        pytest.skip(f"Kafka 3.9 ends {api.name} at version {version}")
    rest = background(key, need, version)
    attempts: list[Option | None] = [None, *need.options]
    found = []
    for option in attempts:
        more = [] if option is None else [(option, name_of(key, need, option, version))]
        pair.allow(*rest, *more)
        kafka, klamm = (_answer(site, key, need, version) for site in (pair.kafka, pair.klamm))
        if option is not None or (api.name, need.case, version) not in UNHELD:
            check(pair.kafka, need, kafka, is_denied=option is None)
        check(pair.klamm, need, klamm, is_denied=option is None)
        right = "nothing" if option is None else str(option.right)
        found += pair.compare(Asked(key, version, {"case": need.case, "with": right}), kafka, klamm)
    assert not found, "\n".join(found)


def _answer(site: Locked, key: int, need: Need, version: int) -> Any:
    return site.ask(key, version, REQUESTS[key, need.case](site, version))


@pytest.mark.parametrize("right", [None, "name"])
def test_a_topic_by_its_id_is_refused_alike(pair: Pair, right: str | None) -> None:
    """Who may not describe a topic learns no name from its id, and who may not delete, keeps it."""
    describe = APIS[ApiKey.DELETE_TOPICS].need("name", 6).options[0]
    pair.allow(*([(describe, TOPIC)] if right else []))
    found = []
    for unknown in (False, True):
        answers = [
            site.ask(ApiKey.DELETE_TOPICS, 6, _doomed(site, unknown=unknown))
            for site in (pair.kafka, pair.klamm)
        ]
        asked = Asked(ApiKey.DELETE_TOPICS, 6, {"case": "name", "with": right})
        found += pair.compare(asked, *answers)
        shown = TOPIC if right and not unknown else None
        assert [each.responses[0].name for each in answers] == [shown, shown]
    answers = [_by_id(site) for site in (pair.kafka, pair.klamm)]
    found += pair.compare(Asked(ApiKey.METADATA, 12, {"case": "by id", "with": right}), *answers)
    shown = TOPIC if right else None
    assert [each.topics[0].name for each in answers] == [shown, shown]
    assert not found, "\n".join(found)


def _doomed(site: Locked, *, unknown: bool) -> delete_topics.Request:
    id = uuid.UUID(int=7) if unknown else site.topic_id
    return delete_topics.Request([delete_topics.DeleteTopicState(None, id)])


def _by_id(site: Locked) -> Any:
    topic = named(TOPIC)
    topic.topic_id, topic.name = site.topic_id, None
    return site.ask(ApiKey.METADATA, 12, metadata.Request([topic]))


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize(
    ("kind", "operation"),
    [
        (None, None),
        (ResourceType.DELEGATION_TOKEN, Operation.DESCRIBE),
        (ResourceType.USER, Operation.DESCRIBE_TOKENS),
    ],
)
def test_tokens_of_others_are_seen_alike(
    pair: Pair, version: int, kind: ResourceType | None, operation: Operation | None
) -> None:
    answers = []
    for site in (pair.kafka, pair.klamm):
        token = _token_of(site)
        name = token if kind is ResourceType.DELEGATION_TOKEN else f"User:{ROOT}"
        site.set({} if kind is None or operation is None else {Pattern(kind, name): {operation}})
        request = describe_delegation_token.Request(None)
        answers.append(site.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, request))
        assert (token in repr(answers[-1])) == (kind is not None), answers[-1]
    asked = Asked(ApiKey.DESCRIBE_DELEGATION_TOKEN, version, {"case": "token", "with": operation})
    found = pair.compare(asked, *map(_anonymous, answers))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("is_allowed", [False, True])
def test_tokens_for_others_are_made_alike(pair: Pair, is_allowed: bool) -> None:
    pattern = Pattern(ResourceType.USER, f"User:{ROOT}")
    answers = []
    for site in (pair.kafka, pair.klamm):
        site.set({pattern: {Operation.CREATE_TOKENS}} if is_allowed else {})
        request = create_delegation_token.Request("User", ROOT, [], -1)
        answers.append(site.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, request))
    assert [each.error_code for each in answers] == [0 if is_allowed else 65] * 2
    asked = Asked(ApiKey.CREATE_DELEGATION_TOKEN, 3, {"case": "owner", "with": is_allowed})
    found = pair.compare(asked, *map(_anonymous, answers))
    _forget_tokens(pair)
    assert not found, "\n".join(found)


def _token_of(site: Locked) -> str:
    """The one token of the super user."""
    described = describe_delegation_token.Request(None)
    told = site.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, described, user=ROOT)
    if told.tokens:
        return str(told.tokens[0].token_id)
    request = create_delegation_token.Request(None, None, [], -1)
    made = site.ask(ApiKey.CREATE_DELEGATION_TOKEN, 3, request, user=ROOT)
    assert made.error_code == 0, made
    return str(made.token_id)


def _forget_tokens(pair: Pair) -> None:
    for site in (pair.kafka, pair.klamm):
        request = describe_delegation_token.Request(None)
        told = site.ask(ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, request, user=ROOT)
        for token in told.tokens:
            ended = expire_delegation_token.Request(token.hmac, -1)
            site.ask(ApiKey.EXPIRE_DELEGATION_TOKEN, 2, ended, user=ROOT)


def _anonymous(answer: Any) -> Any:
    """An answer whose tokens have no ids, passwords and times, which no two clusters share."""
    for token in (answer, *getattr(answer, "tokens", ())):
        for name in ("token_id", "hmac"):
            if getattr(token, name, None):
                setattr(token, name, "own" if name == "token_id" else b"own")
        for each in fields(token):
            if "timestamp" in each.name and getattr(token, each.name) > 0:
                setattr(token, each.name, 1)
    return answer


def test_no_exception_is_out_of_date(pair: Pair) -> None:
    """Every difference that is documented for the table is still there."""
    if len(pair.cases) < len(CASES):
        pytest.skip("only when all cases have been asked")
    seen = {documented.why for documented in pair.judge.used}
    assert [each["why"] for each in EXCEPTIONS["difference"] if each["why"] not in seen] == []
