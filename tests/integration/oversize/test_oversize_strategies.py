"""Each strategy of the oversize policy on real Kafka: what went in comes out byte for byte."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from urllib.request import urlopen

import pytest

from headgate.consumer.claims import ClaimChecks
from headgate.oversize.chunks import rebuild
from support.gateway.oversize_world import (
    LIMIT,
    assembled,
    configuration,
    document,
    noise,
    post,
    records,
    stored_files,
)
from support.process.stack import eventually

pytestmark = pytest.mark.kafka


def topic_with(kafka, name: str, **configs: str) -> str:
    return kafka.create_topic(name, 3, {"max.message.bytes": str(LIMIT)} | configs)


def test_compress_takes_what_fits_when_compressed(kafka, start_gateway, topic_name):
    topic_with(kafka, topic_name)
    gateway = start_gateway(
        configuration(
            kafka,
            f'[topics.{topic_name}]\nkey = "/id"\noversize = ["compress"]',
            'compression = "none"',
        )
    )
    small, fits = b'{"id":"a"}', b'{"id":"a","text":"%s"}' % (b"x" * 3_000_000)
    for body in (small, fits, small):
        answer = post(gateway.url, topic_name, body)
        assert answer.status == 201, answer
        assert answer.body.get("oversize") == ("compress" if body is fits else None)
        assert answer.body["records"] == 1
    refused = post(gateway.url, topic_name, document("a", 200_000))
    assert (refused.status, refused.body["reason"]) == (413, "too_large")
    assert "compress" in refused.body["detail"]
    assert refused.body["largest_paths"][0]["path"] == "/text"
    assert [one.value for one in records(kafka, topic_name)] == [small, fits, small]


def test_notify_says_that_it_changed_and_not_to_what(kafka, start_gateway, topic_name):
    topic_with(kafka, topic_name, **{"cleanup.policy": "compact"})
    gateway = start_gateway(
        configuration(
            kafka, f'[topics.{topic_name}]\nkey = "/id"\nkind = "state"\noversize = ["notify"]'
        )
    )
    body = document("a", 200_000)
    answer = post(gateway.url, topic_name, body)
    assert (answer.status, answer.body["oversize"]) == (201, "notify")
    (record,) = records(kafka, topic_name)
    assert (record.key, record.value) == (b"a", b"")  # null would delete the key
    assert record.header("hg-oversize") == b"key-only"
    assert record.header("hg-value-bytes") == b"%d" % len(body)
    assert record.header("hg-value-sha256") == hashlib.sha256(body).hexdigest().encode()
    assert record.header("content-type") == b"application/json"


async def test_claim_check_stores_first_and_refers_then(kafka, start_gateway, topic_name, tmp_path):
    topic_with(kafka, topic_name)
    root = tmp_path / "blobs"
    gateway = start_gateway(
        configuration(
            kafka,
            f'[topics.{topic_name}]\nkey = "/id"\noversize = ["claim-check"]',
            f'[blobs]\nurl = "file://{root}"',
        )
    )
    body = document("a", 300_000)
    event = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t",
             "ce-dataref": "https://elsewhere.example/x"}  # fmt: skip
    for headers in ({}, event):
        answer = post(gateway.url, topic_name, body, headers)
        assert (answer.status, answer.body["oversize"]) == (201, "claim-check"), answer
    assert len(stored_files(root)) == 1  # the same content is one blob
    claims = ClaimChecks(f"file://{root}")
    for record in records(kafka, topic_name):
        assert record.value == b""
        assert await claims.value(record) == body
    assert records(kafka, topic_name)[1].header("ce_type") == b"t"

    for path in stored_files(root):
        path.unlink()
    (root / ".pending").rename(tmp_path / "gone")
    (root / ".pending").write_text("in the way")
    failed = post(gateway.url, topic_name, body)
    assert (failed.status, failed.body["reason"]) == (503, "blobs_unavailable")
    assert len(records(kafka, topic_name)) == 2


def test_split_writes_elements_and_then_their_manifest(kafka, start_gateway, topic_name):
    topic_with(kafka, topic_name, **{"cleanup.policy": "compact"})
    gateway = start_gateway(
        configuration(
            kafka,
            f'[topics.{topic_name}]\nkey = "/id"\nkind = "state"\noversize = ["split"]\n'
            'split = {pointer = "/options", key = "/id"}',
        )
    )
    options = [{"id": f"o{n}", "text": noise(400, n).decode()} for n in range(300)]
    body = json.dumps({"id": "deal", "options": options, "title": "Lisbon"}, indent=1).encode()
    answer = post(gateway.url, topic_name, body)
    assert answer.status == 201, answer
    assert (answer.body["oversize"], answer.body["records"]) == ("split", 301)
    found = records(kafka, topic_name)
    elements = {one.key: one.value for one in found if one.header("hg-split") == b"element"}
    (manifest,) = (one for one in found if one.header("hg-split") == b"manifest")
    assert (manifest.key, manifest.partition) == (b"deal", answer.body["partition"])
    assert manifest.offset == answer.body["offset"]
    assert elements.keys() == {f"o{n}".encode() for n in range(300)}
    assert {one.header("hg-split-set") for one in found} == {manifest.header("hg-split-set")}
    assert {one.header("hg-event-id") for one in found}.__len__() == 301
    assert rebuild(manifest.value, elements) == body
    about = json.loads(manifest.value)
    assert (about["count"], about["document"]["title"]) == (300, "Lisbon")

    lacking = json.dumps({"id": "deal", "options": [{"text": "x" * 70_000}]}).encode()
    assert post(gateway.url, topic_name, lacking).status == 413  # no key, no element


async def test_chunks_come_out_whole_by_the_library(kafka, start_gateway, topic_name):
    topic_with(kafka, topic_name)
    gateway = start_gateway(
        configuration(
            kafka, f'[topics.{topic_name}]\nkey = "/id"\noversize = ["compress", "chunk"]'
        )
    )
    bodies = [document("a", size, size) for size in (100_000, 500_000, 90_000, 3_000_000)]
    for body in bodies:
        answer = post(gateway.url, topic_name, body, {"Headgate-Header-Tenant": "x"})
        assert answer.status == 201, answer
        assert answer.body["oversize"] == "chunk"
    found = records(kafka, topic_name)
    assert all(one.header("tenant") == b"x" for one in found)
    counts = {one.header("hg-chunk-set"): one.header("hg-chunk-count") for one in found}
    assert len(counts) == len(bodies)
    indices = [int(one.header("hg-chunk-index") or b"-1") for one in found]
    assert indices == [at for count in counts.values() for at in range(int(count or 0))]
    events = assembled(kafka, topic_name)
    assert [event.value for event in events] == bodies
    assert events[-1].offset == answer.body["offset"]
    assert answer.body["records"] == int([*counts.values()][-1] or 0)
    assert not [name for name, _ in events[0].headers if name.startswith("hg-chunk")]

    beyond = post(gateway.url, topic_name, b'{"id":"a","text":"%s"}' % noise(16_700_000))
    assert beyond.status == 201, beyond  # 16 MiB less a little

    def counted() -> list[tuple[bool, float]]:
        text = page(gateway.management_url + "/metrics")
        lines = [one for one in text.splitlines() if one.startswith("headgate_oversize_total{")]
        return [('action="chunk"' in one, float(one.split()[-1])) for one in lines]

    await eventually(lambda: counted() == [(True, 5.0)])
    await eventually(
        lambda: (
            json.loads(page(gateway.management_url + "/v1/producers/other"))["oversize"]
            == {"chunk": 5}
        )
    )


def page(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        return answer.read().decode()


def test_a_compacted_topic_gets_no_chunks_at_runtime(kafka, start_gateway, topic_name):
    topic_with(kafka, topic_name, **{"cleanup.policy": "compact"})
    gateway = start_gateway(
        configuration(kafka, f'[topics.{topic_name}]\nkey = "/id"\noversize = ["chunk"]')
    )
    refused = post(gateway.url, topic_name, document("a", 100_000))
    assert (refused.status, refused.body["reason"]) == (413, "too_large")
    assert records(kafka, topic_name) == []


def test_what_is_larger_than_the_policy_climbs_as_well(kafka, start_gateway, topic_name):
    kafka.create_topic(topic_name)
    gateway = start_gateway(
        configuration(
            kafka,
            f'[topics.{topic_name}]\nkey = "/id"\nmax_bytes = 5000\n'
            'oversize = ["compress", "chunk"]',
        )
    )
    plain, noisy = b'{"id":"a","text":"%s"}' % (b"x" * 20_000), document("a", 20_000)
    assert post(gateway.url, topic_name, plain).body["oversize"] == "compress"
    answer = post(gateway.url, topic_name, noisy)
    assert (answer.body["oversize"], answer.body["records"]) == ("chunk", 5)
    assert all(len(one.value or b"") <= 5000 for one in records(kafka, topic_name)[1:])
    assert [event.value for event in assembled(kafka, topic_name)] == [plain, noisy]


def test_a_batch_climbs_event_by_event(kafka, start_gateway, topic_name, tmp_path: Path):
    topic_with(kafka, topic_name)
    gateway = start_gateway(
        configuration(
            kafka,
            f'[topics.{topic_name}]\nkey = "/id"\noversize = ["compress", "claim-check"]',
            f'[blobs]\nurl = "file://{tmp_path / "blobs"}"',
        )
    )
    events = [
        b'{"id":"a","n":1}', document("a", 100_000), b'{"id":"a","n":2}',
        b'{"id":"a","text":"%s"}' % (b"x" * 100_000), b'{"id":"a","n":3}',
    ]  # fmt: skip
    answer = post(gateway.url, topic_name, b"[" + b",".join(events) + b"]")
    assert answer.status == 200, answer
    shown = [one.get("oversize") for one in answer.body["outcomes"]]
    assert shown == [None, "claim-check", None, "compress", None]
    offsets = [one["offset"] for one in answer.body["outcomes"]]
    assert offsets == sorted(offsets)  # of one key, whatever each of them had to wait for
    values = [one.value for one in records(kafka, topic_name)]
    assert values == [events[0], b"", *events[2:]]
