"""The parts of the differential test that need no cluster."""

from __future__ import annotations

import itertools

import pytest

from interop_extra.differential import judging
from interop_extra.differential.dice import Asked, Dice
from interop_extra.differential.trees import (
    ABSENT,
    Difference,
    comparable,
    differences,
    from_tree,
    to_tree,
)
from klamm.protocol import codec
from klamm.protocol.apis import APIS, ApiKey

VERSIONS = {key: (api.served.low, api.served.high) for key, api in APIS.items()}
OWN = {
    "$before",
    "$epoch-before",
    "$batch",
    "$member",
    "$generation",
    "$producer",
    "$epoch",
    "$topic",
}


def test_the_same_seed_asks_the_same() -> None:
    ones, others = (list(Dice(7, VERSIONS).requests(300)) for _ in range(2))
    assert ones == others
    assert len({(each.key, each.version) for each in ones}) > 100
    assert ones != list(Dice(8, VERSIONS).requests(300))


def test_every_request_can_be_written_and_read() -> None:
    for asked in Dice(1, VERSIONS).requests(1500):
        tree = _settled(asked.tree)
        message = from_tree(codec.message_class(asked.key, "Request"), tree)
        body = codec.encode_request(asked.key, asked.version, message)
        again = to_tree(
            codec.decode_request(asked.key, asked.version, body), asked.key, asked.version
        )
        assert tree.keys() <= again.keys(), asked


def _settled(tree):  # type: ignore[no-untyped-def]
    """A request with something in the place of a system's own words."""
    if isinstance(tree, dict):
        return {name: _settled(value) for name, value in tree.items()}
    if isinstance(tree, list):
        return [_settled(each) for each in tree]
    if isinstance(tree, str) and tree.startswith("$"):
        word = tree.partition(":")[0]
        assert word in OWN, tree
        return {"$batch": "hex:00", "$member": "m", "$before": "m"}.get(
            word, 1 if word != "$topic" else "11111111-2222-3333-4444-555555555555"
        )
    return tree


def test_own_things_are_the_same_and_their_absence_is_not() -> None:
    one = {"cluster_id": "a", "topics": [{"name": "t", "topic_id": "x", "error_message": "words"}]}
    other = {"cluster_id": "b", "topics": [{"name": "t", "topic_id": "y", "error_message": "else"}]}
    assert list(differences(comparable(one), comparable(other))) == []
    other["topics"][0]["topic_id"] = None  # type: ignore[index]
    assert list(differences(comparable(one), comparable(other))) == [
        Difference("topics[t].topic_id", "$own", "$none")
    ]


def test_elements_are_aligned_by_name_in_any_order() -> None:
    kafka = {"topics": [{"name": "a", "error_code": 0}, {"name": "b", "error_code": 3}]}
    klamm = {"topics": [{"name": "b", "error_code": 0}, {"name": "c", "error_code": 0}]}
    found = {each.path: each[1:] for each in differences(kafka, klamm)}
    assert found.keys() == {"topics[a]", "topics[b].error_code", "topics[c]"}
    assert found["topics[b].error_code"] == (3, 0)
    assert found["topics[a]"][1] == found["topics[c]"][0] == ABSENT


def test_a_difference_without_a_reason_is_a_fault_with_its_request() -> None:
    judge = judging.Judge(judging.documented(""))
    asked = Asked(ApiKey.METADATA, 1, {"topics": None})
    assert judge.look(asked, [Difference("topics[a].error_code", 3, 0)])
    report = judge.report()
    assert "Metadata topics[*].error_code: Kafka 3, klamm 0; 1x" in report
    assert '"request": {"topics": null}' in report


def test_a_reason_covers_what_it_names_and_nothing_else() -> None:
    text = """
        [[difference]]
        api = "Metadata"
        path = "topics[*].error_code"
        kafka = "3"
        why = "because"
    """
    judge = judging.Judge(judging.documented(text))
    asked = Asked(ApiKey.METADATA, 1, {})
    assert not judge.look(asked, [Difference("topics[a].error_code", 3, 0)])
    assert judge.look(asked, [Difference("topics[a].error_code", 5, 0)])
    assert judge.look(asked, [Difference("brokers[a].error_code", 3, 0)])
    assert judge.look(Asked(ApiKey.FETCH, 4, {}), [Difference("topics[a].error_code", 3, 0)])
    assert [each.why for each in judge.used] == ["because"]


@pytest.mark.parametrize("text", ['api = "Fetch"', 'why = " "', 'why = "x"\ntypo = 1'])
def test_a_documented_difference_has_a_reason(text: str) -> None:
    with pytest.raises(AssertionError):
        judging.documented(f"[[difference]]\n{text}")


def test_the_table_can_be_read_and_repeats_nothing() -> None:
    known = judging.documented(judging.TABLE.read_text())
    assert known
    for one, other in itertools.combinations(known, 2):
        assert one != other
