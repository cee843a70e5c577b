"""Event ids: UUIDv7, never twice."""

from uuid import UUID

import pytest

from headgate.ingest.turn import EventIds


def test_a_million_ids_of_one_millisecond_differ() -> None:
    ids = EventIds(b"\xff" * 6)
    assert len({ids.take(1_700_000_000_000) for _ in range(1_000_000)}) == 1_000_000


@pytest.mark.parametrize("now_ms", [0, 1, 1_700_000_000_000, 2**48 - 1])
@pytest.mark.parametrize("node", [bytes(6), b"\xff" * 6, b"\x00\x00\x02\xff\xff\xff"])
def test_an_id_is_a_uuid7_that_tells_its_time(now_ms: int, node: bytes) -> None:
    ids = EventIds(node)
    for _ in range(3):
        text = ids.take(now_ms)
        id_ = UUID(text)
        assert str(id_) == text
        assert (id_.version, id_.variant) == (7, "specified in RFC 4122")
        assert id_.int >> 80 == now_ms
        assert id_.bytes[10:] == node


def test_processes_differ_by_their_node() -> None:
    node = 0x123456789ABC
    one = EventIds(node.to_bytes(6, "big"))
    other = EventIds((node ^ 1).to_bytes(6, "big"))
    ours = {one.take(5) for _ in range(10_000)}
    assert ours.isdisjoint(other.take(5) for _ in range(10_000))


def test_later_ids_sort_later_across_milliseconds() -> None:
    ids = EventIds(b"\x01\x02\x03\x04\x05\x06")
    taken = [ids.take(now_ms) for now_ms in range(1000, 1100)]
    assert taken == sorted(taken)


def test_a_node_has_six_bytes() -> None:
    with pytest.raises(ValueError, match="6 bytes"):
        EventIds(b"12345")
