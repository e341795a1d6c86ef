"""Topics created because somebody asked for them."""

from __future__ import annotations

import asyncio

import pytest

from klamm.broker.admin.auto_creation import AutoCreation
from klamm.broker.net.peers import Peers
from klamm.broker.quotas.quotas import QuotaClient
from klamm.model.brokers import Endpoint, Registration
from klamm.model.errors import ErrorCode
from klamm.model.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from klamm.protocol.messages import create_topics
from klamm.store import layout
from unit.broker.admin_host import TestHost, on_a_host

ASKER = QuotaClient("ANONYMOUS", "asker")


class Controller:
    """The controller at the end of the line: says what it was told to, and remembers."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.codes = list(codes)
        self.asked: list[tuple[Endpoint, str, str]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(
        self, peers: Peers, controller: Registration, client_id: str, request: create_topics.Request
    ) -> create_topics.Response:
        (topic,) = request.topics
        self.asked.append((controller.endpoints[0], client_id, topic.name))
        await self.may_answer.wait()
        code = self.codes.pop(0)
        return create_topics.Response(
            topics=[create_topics.CreatableTopicResult(topic.name, error_code=code)]
        )


def test_the_controller_creates_with_its_defaults_and_answers_with_the_topic() -> None:
    async def test(host: TestHost) -> None:
        creation = AutoCreation(host, host.admin, host.controller, Controller())
        async with host.announcing():
            codes = await creation.create(["a", "b c"], ASKER)
        assert codes == {"a": ErrorCode.NONE, "b c": ErrorCode.INVALID_TOPIC_EXCEPTION}
        assert len(host.metadata.snapshot.topics["a"]) == 3

    on_a_host(test, {"num.partitions": "3"})


def test_too_few_brokers_are_told_as_they_are() -> None:
    async def test(host: TestHost) -> None:
        codes = await AutoCreation(host, host.admin, host.controller, Controller()).create(
            ["a"], ASKER
        )
        assert codes == {"a": ErrorCode.INVALID_REPLICATION_FACTOR}

    on_a_host(test, {"default.replication.factor": "4"})


def test_another_broker_sends_the_wish_on_under_the_clients_name() -> None:
    async def test(host: TestHost) -> None:
        host.controller.is_active = False
        host.tell([], controller=2)
        controller = Controller(ErrorCode.POLICY_VIOLATION)
        codes = await AutoCreation(host, host.admin, host.controller, controller).create(
            ["a"], ASKER
        )
        assert codes == {"a": ErrorCode.POLICY_VIOLATION}
        assert controller.asked == [(Endpoint("h", 2), "asker", "a")]
        assert await host.session.children(layout.TOPICS) == ()

    on_a_host(test)


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.REQUEST_TIMED_OUT])
def test_a_topic_that_is_on_its_way_lets_the_client_ask_again(code: ErrorCode) -> None:
    async def test(host: TestHost) -> None:
        host.controller.is_active = False
        codes = await AutoCreation(host, host.admin, host.controller, Controller(code)).create(
            ["a"], ASKER
        )
        assert codes == {"a": ErrorCode.LEADER_NOT_AVAILABLE}

    on_a_host(test)


def test_without_a_controller_the_client_asks_again() -> None:
    async def test(host: TestHost) -> None:
        host.controller.is_active = False
        host.tell([], controller=-1)
        codes = await AutoCreation(host, host.admin, host.controller, Controller()).create(
            ["a"], ASKER
        )
        assert codes == {"a": ErrorCode.LEADER_NOT_AVAILABLE}

    on_a_host(test)


def test_wishes_for_one_name_share_one_attempt() -> None:
    async def test(host: TestHost) -> None:
        host.controller.is_active = False
        controller = Controller(ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION)
        controller.may_answer.clear()
        creation = AutoCreation(host, host.admin, host.controller, controller)
        wishes = [asyncio.create_task(creation.create(["a"], ASKER)) for _ in range(3)]
        # One that gives up must not end the attempt of the others.
        await asyncio.sleep(0)
        wishes.pop().cancel()
        controller.may_answer.set()
        assert await asyncio.gather(*wishes) == [{"a": ErrorCode.POLICY_VIOLATION}] * 2
        assert len(controller.asked) == 1
        await creation.create(["a"], ASKER)
        assert len(controller.asked) == 2

    on_a_host(test)


@pytest.mark.parametrize(
    "given",
    [{"auto.create.topics.enable": "false"}, {"klamm.auto.create.prefixes": "logs-,metrics-"}],
)
def test_creation_can_be_forbidden(given: dict[str, str]) -> None:
    async def test(host: TestHost) -> None:
        codes = await AutoCreation(host, host.admin, host.controller, Controller()).create(
            ["a"], ASKER
        )
        assert codes == {"a": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    on_a_host(test, given)


def test_allowed_prefixes_are_allowed() -> None:
    async def test(host: TestHost) -> None:
        async with host.announcing():
            codes = await AutoCreation(host, host.admin, host.controller, Controller()).create(
                ["logs-1"], ASKER
            )
        assert codes == {"logs-1": ErrorCode.NONE}

    on_a_host(test, {"klamm.auto.create.prefixes": "metrics-,logs-"})


def test_a_deleted_name_stays_away_for_as_long_as_its_quarantine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(host: TestHost) -> None:
        creation = AutoCreation(host, host.admin, host.controller, Controller())
        creation.topics_removed(["a"])
        host.clock.ms += 999
        codes = await creation.create(["a"], ASKER)
        assert codes == {"a": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        (told,) = caplog.records
        assert (told.__dict__["topic"], told.__dict__["client"]) == ("a", ASKER)
        host.clock.ms += 1
        async with host.announcing():
            assert await creation.create(["a"], ASKER) == {"a": ErrorCode.NONE}

    on_a_host(test, {"klamm.auto.create.quarantine.ms": "1000"})


@pytest.mark.parametrize(
    ("topic", "configs"),
    [
        (
            CONSUMER_OFFSETS,
            {"cleanup.policy": "compact", "segment.bytes": "99", "compression.type": "producer"},
        ),
        (
            TRANSACTION_STATE,
            {
                "cleanup.policy": "compact",
                "segment.bytes": "98",
                "compression.type": "uncompressed",
                "min.insync.replicas": "2",
                "unclean.leader.election.enable": "false",
            },
        ),
    ],
)
def test_coordinators_get_their_topics_even_where_creation_is_forbidden(
    topic: str, configs: dict[str, str]
) -> None:
    async def test(host: TestHost) -> None:
        creation = AutoCreation(host, host.admin, host.controller, Controller())
        async with host.announcing():
            assert await creation.create_internal_topic(topic) is None
        partitions = host.metadata.snapshot.topics[topic]
        assert len(partitions) == 50
        assert len(partitions[0].replicas) == 3
        node = await host.session.get(layout.topic_config_path(topic))
        assert node is not None
        assert layout.decode_config(node.data) == configs

    given = {
        "auto.create.topics.enable": "false",
        "offsets.topic.segment.bytes": "99",
        "transaction.state.log.segment.bytes": "98",
    }
    on_a_host(test, given)


def test_why_an_internal_topic_cannot_be_is_told() -> None:
    async def test(host: TestHost) -> None:
        why = await AutoCreation(
            host, host.admin, host.controller, Controller()
        ).create_internal_topic(CONSUMER_OFFSETS)
        assert why is not None
        assert "larger than available brokers: 1." in why

    on_a_host(test, racks={0: None})


def test_a_topic_that_cannot_be_made_is_told_of_a_few_times_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(host: TestHost) -> None:
        creation = AutoCreation(host, host.admin, host.controller, Controller())
        for _ in range(50):
            assert await creation.create_internal_topic(CONSUMER_OFFSETS) is not None

    caplog.set_level("INFO", "klamm.broker.admin.auto_creation")
    on_a_host(test, racks={0: None})
    told = [r for r in caplog.records if CONSUMER_OFFSETS in str(r.__dict__)]
    assert 1 <= len(told) <= 5
