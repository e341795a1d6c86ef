"""What callers may have: lists, somebody else's rules, brokers, and no rules at all."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from klamm.broker.access.access import Access
from klamm.broker.access.audit import Audit
from klamm.model.errors import ErrorCode, RequestRefused, UsageError
from klamm.model.settings import BrokerSettings
from klamm.protocol.apis import ApiKey
from klamm.security.authorization.acls import (
    Acl,
    Binding,
    Operation,
    Pattern,
    Permission,
    ResourceType,
)
from klamm.security.authorization.apis import need_of
from klamm.security.authorization.authorizer import Question
from klamm.security.authorization.snapshot import Snapshot, snapshot_of
from unit.broker.access.peers import context

WRITE = need_of(ApiKey.PRODUCE, "topic")
ORDER = need_of(ApiKey.LEADER_AND_ISR, "cluster")
ALL_TOPICS = need_of(ApiKey.METADATA, "all topics")
LISTS = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
asked: list[Question] = []


def rules(question: Question) -> object:
    """Alice may do everything to what begins with her name; a riddle is no yes."""
    asked.append(question)
    if question.name == "broken":
        raise RuntimeError("these rules fail")
    if question.name == "riddle":
        return 1
    return question.principal.name == "alice" and (question.name or "").startswith("alice")


class Rules:
    """Rules with a memory of their own."""

    def __call__(self, question: Question) -> bool:
        return question.host == "10.0.0.1"


def access(**settings: str) -> Access:
    given = {name.replace("_", "."): text for name, text in settings.items()}
    return Access.of(BrokerSettings.parse(given), lambda: 0)


def guarded(*acls: tuple[str, str, Permission]) -> Access:
    made = Access.of(BrokerSettings.parse({**LISTS, "super.users": "User:root"}), lambda: 0)
    assert made.lists is not None
    made.lists.replace(
        snapshot_of(
            Binding(Pattern(ResourceType.TOPIC, topic), Acl(who, "*", Operation.WRITE, permission))
            for who, topic, permission in acls
        )
    )
    return made


ALICE = ("User:alice", "t", Permission.ALLOW)


def test_without_an_authorizer_everybody_may_do_everything() -> None:
    open_ = access()
    assert open_.is_open
    assert open_.permits(context(), WRITE, "t")
    assert "anything" in open_.allowed(context(), WRITE)
    assert open_.operations(context(), ResourceType.TOPIC, "t") == 3576


def test_what_is_for_brokers_stays_theirs_without_an_authorizer() -> None:
    open_ = access()
    assert not open_.admits_broker(context(), ORDER)
    assert open_.admits_broker(context(is_broker=True), ORDER)


def test_lists_are_asked_for_the_principal_and_the_name() -> None:
    lists = guarded(ALICE)
    assert lists.permits(context(), WRITE, "t")
    assert not lists.permits(context(), WRITE, "u")
    assert not lists.permits(context(principal="User:bob"), WRITE, "t")
    assert lists.permits(context(principal="User:root"), WRITE, "u")


def test_before_lists_are_read_only_super_users_get_in() -> None:
    made = access(authorizer_class_name="klamm", allow_everyone_if_no_acl_found="true")
    assert not made.permits(context(), WRITE, "t")
    assert made.lists is not None
    made.lists.replace(Snapshot())
    assert made.permits(context(), WRITE, "t")


def test_a_connection_keeps_its_permissions_and_follows_the_lists() -> None:
    lists, request = guarded(ALICE), context()
    assert lists.permits(request, WRITE, "t")
    kept = request.peer.standing
    assert kept is not None
    assert lists.may_write(request.peer, "t")
    assert lists.lists is not None
    lists.lists.replace(Snapshot())
    assert not lists.may_write(request.peer, "t")
    assert not lists.permits(request, WRITE, "t")
    assert request.peer.standing is kept


def test_a_connection_that_speaks_for_somebody_else_has_their_rights() -> None:
    lists, request = guarded(ALICE), context()
    assert lists.permits(request, WRITE, "t")
    request.peer.principal = "User:bob"
    assert not lists.permits(request, WRITE, "t")


def test_nothing_is_known_of_a_peer_that_has_asked_nothing() -> None:
    assert not guarded(ALICE).may_write(context().peer, "t")


def test_a_principal_that_makes_no_sense_is_nobody() -> None:
    lists = guarded(("User:ANONYMOUS", "t", Permission.ALLOW))
    assert lists.permits(context(principal="User:ANONYMOUS"), WRITE, "t")
    assert not lists.permits(context(principal="nonsense"), WRITE, "t")


def test_a_proven_broker_needs_no_right_and_one_that_is_taken_for_one_needs_some() -> None:
    lists = guarded()
    proven, taken = context(is_broker=True, has_proven=True), context(is_broker=True)
    assert lists.permits(proven, WRITE, "t")
    assert lists.admits_broker(proven, ORDER)
    assert lists.admits_broker(taken, ORDER)
    assert not lists.permits(taken, WRITE, "t")
    assert not lists.admits_broker(context(), ORDER)
    assert lists.admits_broker(context(principal="User:root"), ORDER)


def test_a_demand_refuses_the_whole_request() -> None:
    with pytest.raises(RequestRefused) as refused:
        guarded().demand(context(), ORDER)
    assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert guarded().refusal(context(), WRITE, "t") is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert guarded(ALICE).refusal(context(), WRITE, "t") is None


def test_each_name_is_asked_about_once_a_request(caplog: pytest.LogCaptureFixture) -> None:
    lists = guarded(ALICE)
    with caplog.at_level(logging.INFO, "klamm.authorizer"):
        allowed = lists.allowed(context(), WRITE)
        assert ["t" in allowed, "u" in allowed, "u" in allowed] == [True, False, False]
    assert len(caplog.records) == 1


def test_answers_are_shared_by_those_with_the_same_rights_only() -> None:
    lists = guarded(ALICE)
    before = lists.sharers(context())
    assert before != lists.sharers(context(principal="User:bob"))
    assert before != lists.sharers(context(host="10.0.0.2"))
    lists.lists_changed()
    assert before != lists.sharers(context())
    assert access().sharers(context()) == access().sharers(context(principal="User:bob"))


HERE = "tests.unit.broker.access.test_access"


def test_somebody_elses_rules_are_asked_each_time() -> None:
    custom = access(authorizer_class_name=f"{HERE}:rules", super_users="User:root")
    asked.clear()
    request = context()
    assert custom.permits(request, WRITE, "alice-1")
    assert custom.permits(request, WRITE, "alice-1")
    assert not custom.permits(request, WRITE, "bob-1")
    assert custom.permits(context(principal="User:root"), WRITE, "bob-1")
    assert [(q.principal.text, q.host, q.name) for q in asked] == [
        ("User:alice", "10.0.0.1", "alice-1"),
        ("User:alice", "10.0.0.1", "alice-1"),
        ("User:alice", "10.0.0.1", "bob-1"),
    ]
    assert custom.sharers(request) is None


def test_rules_that_fail_or_speak_in_riddles_deny(caplog: pytest.LogCaptureFixture) -> None:
    custom = access(authorizer_class_name=f"{HERE}:rules")
    assert not custom.permits(context(), WRITE, "broken")
    assert not custom.permits(context(), WRITE, "riddle")
    assert "the authorizer failed and the caller is denied" in caplog.text


def test_rules_may_be_a_class() -> None:
    custom = access(authorizer_class_name=f"{HERE}:Rules")
    assert custom.permits(context(), WRITE, "t")
    assert not custom.permits(context(host="10.0.0.2"), WRITE, "t")


def test_rules_of_ones_own_have_no_lists_to_show() -> None:
    custom = access(authorizer_class_name=f"{HERE}:Rules")
    assert custom.no_lists().code is ErrorCode.SECURITY_DISABLED
    assert "rules of its own" in str(custom.no_lists())
    assert str(access().no_lists()) == "No Authorizer is configured."


@pytest.mark.parametrize("name", ["no_module:x", f"{HERE}:nothing", f"{HERE}:HERE"])
def test_rules_that_cannot_be_loaded_stop_the_start(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        access(authorizer_class_name=name)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "klamm.authorizer"]


def test_a_denial_is_a_line_in_kafkas_words_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    lists = guarded()
    with caplog.at_level(logging.INFO, "klamm.authorizer"):
        lists.permits(context(host="::1"), WRITE, "t\n")
    assert lines(caplog) == [
        "Principal = User:alice is Denied Operation = Write from host = 0:0:0:0:0:0:0:1 on "
        r"resource = Topic:LITERAL:t\n for request = Produce with resourceRefCount = 1"
        " on listener = PLAINTEXT by client = app"
    ]
    assert lists.audit.denials == {"Produce": 1}


def test_what_nobody_asked_for_is_no_event(caplog: pytest.LogCaptureFixture) -> None:
    lists = guarded(ALICE)
    with caplog.at_level(logging.DEBUG, "klamm.authorizer"):
        assert not lists.permits(context(key=3), ALL_TOPICS, "u")
        assert lists.permits(context(), WRITE, "t")
    assert [line.split(" from ")[0] for line in lines(caplog)] == [
        "Principal = User:alice is Allowed Operation = Write"
    ]
    assert lists.audit.denials == {}


def test_what_super_users_change_is_written_down(caplog: pytest.LogCaptureFixture) -> None:
    create = need_of(ApiKey.CREATE_TOPICS, "topic")
    with_rules = access(authorizer_class_name=f"{HERE}:rules", super_users="User:root")
    for lists in (guarded(), with_rules):
        caplog.clear()
        with caplog.at_level(logging.INFO, "klamm.authorizer"):
            assert lists.permits(context(19, "User:root"), create, "t")
            assert lists.permits(context(0, "User:root"), WRITE, "t")  # records are no change
        told = [(r.name, r.getMessage().split(" from ")[0]) for r in caplog.records]
        line = "Principal = User:root is Allowed Operation = Create"
        assert told == [("klamm.authorizer.super", line)]


def test_a_flood_of_denials_is_counted_and_not_written(caplog: pytest.LogCaptureFixture) -> None:
    now: dict[str, Any] = {"ms": 0}
    lists = Access(Audit(lambda: now["ms"]), lists=guarded().lists)
    with caplog.at_level(logging.INFO, "klamm.authorizer"):
        for _ in range(5_000):
            lists.permits(context(), WRITE, "t")
        assert len(lines(caplog)) == 100
        now["ms"] = 1000
        lists.permits(context(), WRITE, "t")
    assert lines(caplog)[100] == "4900 more denials were not written in the last seconds"
    assert lists.audit.denials == {"Produce": 5_001}
