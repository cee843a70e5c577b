"""The management pages, without processes: a meter's figures behind the real application."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp.test_utils import RawTestServer, TestClient, TestServer
from openapi_schema_validator import OAS31Validator

from headgate.admin import requests
from headgate.admin.app import management_app
from headgate.admin.requests import handed_on
from headgate.config.settings import AuthSettings, HttpSettings, ProducerSettings, Settings
from headgate.http.auth import Peer
from headgate.http.openapi.document import document
from headgate.metrics.meter import HeldFigures
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason
from headgate.model.suppression_states import AWAY, ON, QUARANTINE, TopicSuppression
from headgate.supervisor.control import PARENT_SECRET, Forward
from headgate.supervisor.parent import management_sites
from support.gateway.admin_world import TOKENS, TOPICS, FakeInstance, admin_of
from support.process.stack import eventually


@pytest.fixture
def instance() -> FakeInstance:
    producers = {"shop": ProducerSettings(), "quiet": ProducerSettings()}
    return FakeInstance(Settings(producers=producers, topics=TOPICS))


@pytest.fixture
async def client(instance: FakeInstance) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(management_app(admin_of(instance)))) as client:
        yield client


@pytest.fixture
async def guarded() -> AsyncIterator[TestClient[Any, Any]]:
    settings = Settings(auth=AuthSettings(mode=("token",)), producers=TOKENS, topics=TOPICS)
    async with TestClient(TestServer(management_app(admin_of(FakeInstance(settings))))) as client:
        yield client


def valid(schema: str, page: Any) -> None:
    """Raises unless the page is what the OpenAPI document says."""
    components = orjson.loads(document(HttpSettings()))["components"]
    OAS31Validator({**components["schemas"][schema], "components": components}).validate(page)


def post(instance: FakeInstance, name: OutcomeName, key: bytes, size: int, times: int = 1) -> None:
    outcomes = [Outcome(name, 0, 0, key)] * times
    instance.meter.account("shop", "deals", outcomes, [size] * times)


async def test_the_producer_page_shows_a_data_bomb_at_once(
    instance: FakeInstance, client: TestClient[Any, Any]
) -> None:
    """Incident A: one key, huge, again and again; who, what and how much must be on one page."""
    await instance.refresh()
    post(instance, OutcomeName.PUBLISHED, b"2342565", 800_000, 50)
    post(instance, OutcomeName.UNCHANGED, b"2342565", 800_000, 40)
    for number in range(10):
        post(instance, OutcomeName.PUBLISHED, b"%d" % number, 600)
    too_large = Failure(Reason.TOO_LARGE, "900000 bytes are over max_bytes")
    outcome = Outcome(OutcomeName.REJECTED, key=b"2342565", failure=too_large)
    instance.meter.account("shop", "deals", [outcome], [900_000], "request-1")
    page = await (await client.get("/v1/producers/shop")).json()
    (deals,) = page["topics"]
    assert deals["events_per_s"] == pytest.approx(10.1)
    assert deals["bytes_per_s"] == pytest.approx(7_290_600)
    assert deals["events_total"] == {"published": 60, "unchanged": 40, "rejected:too_large": 1}
    assert deals["ratios"]["unchanged"] == pytest.approx(40 / 101, abs=1e-4)
    assert deals["ratios"]["oversize"] == pytest.approx(1 / 101, abs=1e-4)
    sizes = {"p50": 800_000, "p90": 800_000, "p99": 800_000, "max": 900_000}
    assert deals["size_bytes"] == pytest.approx(sizes, rel=0.004)  # as `metrics.sketches` says
    assert deals["keys"]["cardinality"] == 11
    heaviest = deals["keys"]["top_by_bytes"][0]
    assert (heaviest["key"], heaviest["share"]) == ("2342565", pytest.approx(0.9999, abs=1e-4))
    (reject,) = deals["recent_rejects"]
    assert (reject["reason"], reject["size_bytes"]) == ("too_large", 900_000)
    assert reject["request_id"] == "request-1"
    topic = await (await client.get("/v1/topics/deals")).json()
    assert topic["skew"]["useful_partitions_at_most"] == 1
    assert topic["skew"]["hottest_partition_share"] > 0.99
    assert topic["producers"] == ["shop"]


async def test_what_hygiene_saves_is_shown_for_each_producer(
    instance: FakeInstance, client: TestClient[Any, Any]
) -> None:
    """Of incident A: unchanged, superseded, bytes saved, oversize by action, duplicates."""
    meter = instance.meter
    post(instance, OutcomeName.UNCHANGED, b"1", 500, 3)
    post(instance, OutcomeName.DUPLICATE, b"1", 500, 2)
    for action in ("compress", "compress", "chunk"):
        meter.oversized("shop", "deals", action)
        post(instance, OutcomeName.PUBLISHED, b"2", 2_000_000)
    outcomes = [Outcome(OutcomeName.HELD, 0, -1, b"3")] * 10
    meter.account("shop", "saves", outcomes, [100] * 10)
    meter.coalesced("shop", "saves", "superseded", 7, 700)
    meter.coalesced("shop", "saves", "unchanged", 1, 100)
    meter.coalesced("shop", "saves", "published", 2, 200)
    page = await (await client.get("/v1/producers/shop")).json()
    deals, saves = page["topics"]
    assert deals["events_total"] == {"unchanged": 3, "duplicate": 2, "published": 3}
    assert deals["bytes_saved_total"] == 1500
    assert deals["oversize"] == {"compress": 2, "chunk": 1}
    assert deals["ratios"] == {
        "published": 0.375, "unchanged": 0.375, "duplicate": 0.25, "superseded": 0.0,
        "spooled": 0.0, "rejected": 0.0, "unknown": 0.0, "oversize": 0.375,
    }  # fmt: skip
    ends = {"held": 10, "superseded": 7, "unchanged": 1, "published": 2}
    assert saves["events_total"] == ends
    assert saves["bytes_saved_total"] == 800
    assert saves["window"]["events"] == 10  # each is one event, however it ended
    assert saves["received_total"] == {"events": 10, "bytes": 1000}
    assert page["received_total"] == {"events": 18, "bytes": 6_003_500}
    ratios = {name: saves["ratios"][name] for name in ("superseded", "unchanged", "published")}
    assert ratios == {"superseded": 0.7, "unchanged": 0.1, "published": 0.2}
    assert page["bytes_saved_total"] == 2300
    totals = {"held": 10, "superseded": 7, "unchanged": 4, "published": 5, "duplicate": 2}
    assert page["events_total"] == totals
    assert page["oversize"] == {"compress": 2, "chunk": 1}
    (row,) = [
        row
        for row in (await (await client.get("/v1/producers")).json())["producers"]
        if row["producer"] == "shop"
    ]
    assert (row["events_total"], row["bytes_saved_total"]) == (totals, 2300)


async def test_what_is_held_is_shown_for_each_topic(
    instance: FakeInstance, client: TestClient[Any, Any]
) -> None:
    rows = {"saves": HeldFigures(3, 4096, 1.5, 40)}
    instance.meter.watch_held(lambda: rows)
    held = {"keys": 3, "bytes": 4096, "oldest_s": 1.5, "lag": 40}
    assert (await (await client.get("/v1/topics/saves")).json())["held"] == held
    listed = (await (await client.get("/v1/topics")).json())["topics"]
    assert {row["topic"]: row["held"] for row in listed} == {
        "deals": None, "orders": None, "saves": held,
    }  # fmt: skip
    rows["saves"] = HeldFigures(None, None, None, 40)  # the coalescer runs elsewhere
    held = {"keys": None, "bytes": None, "oldest_s": None, "lag": 40}
    assert (await (await client.get("/v1/topics/saves")).json())["held"] == held


async def test_whether_a_topic_is_suppressed_now_is_on_its_page_and_on_its_producers(
    instance: FakeInstance, client: TestClient[Any, Any]
) -> None:
    """Who sees that a producer's unchanged ratio fell finds why on the same page."""
    off = {"state": "off", "until_s": None}
    post(instance, OutcomeName.PUBLISHED, b"1", 500, 3)
    instance.meter.account("shop", "orders", [Outcome(OutcomeName.PUBLISHED, 0, 0, b"k")], [1])
    instance.meter.account("shop", "stray", [Outcome(OutcomeName.PUBLISHED, 0, 0, b"k")], [1])
    for state, until_s, shown_s in (
        (QUARANTINE, 36.96, 37.0), (QUARANTINE, None, None), (AWAY, None, None), (ON, None, None)
    ):  # fmt: skip
        instance.suppressed = {"deals": TopicSuppression(state, until_s)}
        now = {"state": state, "until_s": shown_s}
        topic = await (await client.get("/v1/topics/deals")).json()
        assert topic["suppression"] == now
        valid("Topic", topic)
        listed = (await (await client.get("/v1/topics")).json())["topics"]
        assert {row["topic"]: row["suppression"] for row in listed} == {
            "deals": now, "orders": off, "saves": off,
        }  # fmt: skip
        producer = await (await client.get("/v1/producers/shop")).json()
        by_topic = {row["topic"]: row["suppression"] for row in producer["topics"]}
        assert by_topic == {"deals": now, "orders": off, "other": None}
        valid("Producer", producer)
        rows = (await (await client.get("/v1/producers")).json())["producers"]
        (row,) = [row for row in rows if row["producer"] == "shop"]
        assert {one["topic"]: one["suppression"] for one in row["topics"]} == by_topic


async def test_nobody_here_knows_whether_a_topic_is_suppressed(
    instance: FakeInstance, client: TestClient[Any, Any]
) -> None:
    """It coalesces, and the coalescers run apart; or no worker has told of it yet."""
    topic = await (await client.get("/v1/topics/deals")).json()
    assert topic["suppression"] is None
    valid("Topic", topic)


async def test_lists_name_everyone_who_is_configured(
    instance: FakeInstance, client: TestClient[Any, Any]
) -> None:
    instance.meter.account("stranger", "deals", [Outcome(OutcomeName.PUBLISHED, 0, 0, b"k")], [1])
    rows = (await (await client.get("/v1/producers")).json())["producers"]
    assert [row["producer"] for row in rows] == ["other", "quiet", "shop"]
    assert rows[1]["topics"] == []
    assert rows[1]["last_seen"] is None
    rows = (await (await client.get("/v1/topics")).json())["topics"]
    assert [row["topic"] for row in rows] == ["deals", "orders", "saves"]
    assert rows[0]["policy"]["suppress"] == "raw"
    assert rows[1]["skew"] == {"judged": False}


async def test_a_topic_that_workers_have_just_found_is_shown(
    instance: FakeInstance, client: TestClient[Any, Any]
) -> None:
    for method, path in (("GET", "/v1/topics/deals"), ("DELETE", "/v1/suppression/deals")):
        instance.unread.add("deals")
        assert (await client.request(method, path)).status == 200


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/v1/producers/nobody", "not_found"),
        ("/v1/topics/nothing", "unknown_topic"),
        ("/v1/elsewhere", "not_found"),
        ("/problems/nonsense", "not_found"),
    ],
)
async def test_what_is_not_there_is_a_problem_document(
    client: TestClient[Any, Any], path: str, reason: str
) -> None:
    answer = await client.get(path, headers={"X-Request-Id": "r-17"})
    problem = await answer.json(content_type="application/problem+json")
    assert (answer.status, problem["reason"], problem["instance"]) == (404, reason, "r-17")


async def test_a_wrong_method_names_the_right_ones(client: TestClient[Any, Any]) -> None:
    answer = await client.post("/v1/producers")
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"
    assert (await client.head("/v1/producers")).status == 200


async def test_pages_for_probes_and_people(
    instance: FakeInstance, client: TestClient[Any, Any]
) -> None:
    assert (await client.get("/live")).status == 200
    assert (await client.get("/ready")).status == 200
    instance.is_ready = False
    answer = await client.get("/ready")
    assert answer.status == 503
    assert (await answer.json())["dependencies"]["kafka main"]["ok"] is False
    answer = await client.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert (await client.get("/problems/too_large")).status == 200
    assert "\n  " in await (await client.get("/v1/producers?pretty")).text()


async def test_a_misspelled_key_does_not_forget_every_key(
    instance: FakeInstance, client: TestClient[Any, Any]
) -> None:
    answer = await client.delete("/v1/suppression/deals?kye=1")
    assert answer.status == 400
    assert 'no parameter "kye". Did you mean "key"?' in (await answer.json())["detail"]
    assert instance.forgotten == []


async def test_a_misspelled_idempotency_key_creates_no_replay(
    client: TestClient[Any, Any],
) -> None:
    for name, status in (("Idempotency-Kye", 400), ("Idempotency-Key", 422)):
        answer = await client.post("/v1/replays", json={"topic": "deals"}, headers={name: "a"})
        assert answer.status == status  # without a second tier, a right one is not covered
        detail = (await answer.json())["detail"]
        assert ('Did you mean "Idempotency-Key"?' in detail) == (status == 400)


async def test_forgetting_is_done_and_written_down(
    instance: FakeInstance, client: TestClient[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert (await client.delete("/v1/suppression/deals?key=a%2Fb%20c")).status == 200
    assert (await client.delete("/v1/suppression/deals?key_base64=/w==")).status == 200
    answer = await client.delete("/v1/suppression/deals", headers={"Headgate-Producer": "till"})
    assert await answer.json() == {"forgotten": {"topic": "deals", "key": None}}
    assert instance.forgotten == [("deals", b"a/b c"), ("deals", b"\xff"), ("deals", None)]
    newest, *_ = (await (await client.get("/v1/changes")).json())["changes"]
    assert (newest["who"], newest["what"], newest["topic"]) == ("till", "forget", "deals")
    assert "change: forget by till" in caplog.messages
    line = next(one for one in caplog.records if one.getMessage() == "change: forget by till")
    assert (line.__dict__["producer"], line.__dict__["remote"]) == ("till", "127.0.0.1")
    entry, *others = (await (await client.get("/v1/log?kind=changed")).json())["entries"]
    assert len(others) == 2
    assert (entry["subject"], entry["level"]) == ("deals", "info")
    expected = {"who": "till", "remote": "127.0.0.1", "what": "forget", "topic": "deals"}
    assert entry["details"] == {**expected, "key": None}
    assert entry["text"] == "forget by till (127.0.0.1): topic deals"


async def test_a_script_does_not_flush_the_installation_log(
    client: TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first 20 changes of a minute are entries, and then their number."""
    monkeypatch.setattr(requests, "_NOTE_S", 1.0)
    for number in range(25):
        assert (await client.delete(f"/v1/suppression/deals?key={number}")).status == 200

    async def entries() -> list[dict[str, Any]]:
        page = await (await client.get("/v1/log?kind=changed&limit=100")).json()
        found: list[dict[str, Any]] = page["entries"]
        return found

    async def has_the_number() -> bool:
        return len(await entries()) == 21

    await eventually(has_the_number)
    last, *others = await entries()
    assert last["details"] == {"left_out": 5}
    assert all(entry["subject"] == "deals" for entry in others)
    assert len((await (await client.get("/v1/changes")).json())["changes"]) == 25


async def test_a_gateway_whose_workers_start_is_asked_again_later(
    instance: FakeInstance, client: TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    starting = instance.health()._replace(is_ready=False, workers={"up": 0, "wanted": 2})
    monkeypatch.setattr(instance, "health", lambda: starting)
    monkeypatch.setattr(instance, "topics", dict)
    answer = await client.delete("/v1/suppression/deals")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert "starting" in (await answer.json())["detail"]
    assert (await client.delete("/v1/suppression/nothing")).status == 404
    assert instance.forgotten == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/suppression/nothing", 404),
        ("/v1/suppression/orders", 400),
        ("/v1/suppression/deals?key_base64=!", 400),
    ],
)
async def test_what_cannot_be_forgotten_is_refused(
    instance: FakeInstance, client: TestClient[Any, Any], path: str, status: int
) -> None:
    assert (await client.delete(path)).status == status
    assert instance.forgotten == []


async def test_a_failed_change_is_not_in_the_change_log(
    instance: FakeInstance, client: TestClient[Any, Any]
) -> None:
    instance.failure = Failure(Reason.REDIS_UNAVAILABLE, "away", retry_after_s=2)
    answer = await client.delete("/v1/suppression/deals")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
    assert (await (await client.get("/v1/changes")).json())["changes"] == []


@pytest.mark.parametrize(
    ("token", "read", "change"),
    [(None, 401, 401), ("wrong", 401, 401), ("shop-token", 403, 403), ("viewer-token", 200, 403),
     ("operator-token", 200, 200)],
)  # fmt: skip
async def test_tokens_and_roles(
    guarded: TestClient[Any, Any], token: str | None, read: int, change: int
) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    for path in ("/v1/producers", "/v1/producers/shop", "/v1/topics", "/v1/topics/deals"):
        assert (await guarded.get(path, headers=headers)).status == read
    assert (await guarded.get("/v1/changes", headers=headers)).status == read
    answer = await guarded.delete("/v1/suppression/deals", headers=headers)
    assert answer.status == change
    assert (await guarded.get("/ready")).status == 200


async def test_a_producer_shows_the_last_use_of_each_token() -> None:
    producers = dict(TOKENS)
    old, new = "0A" * 32, "0b" * 32
    producers["shop"] = ProducerSettings((old, new), ("*",))
    settings = Settings(auth=AuthSettings(mode=("token",)), producers=producers, topics=TOPICS)
    instance = FakeInstance(settings)
    instance.meter.watch_tokens(lambda: {old.lower(): 1_700_000_000.0})
    headers = {"Authorization": "Bearer viewer-token"}
    async with TestClient(TestServer(management_app(admin_of(instance)))) as client:
        shop = await (await client.get("/v1/producers/shop", headers=headers)).json()
        viewer = await (await client.get("/v1/producers/viewer", headers=headers)).json()
        listed = await (await client.get("/v1/producers", headers=headers)).json()
    valid("Producer", shop)
    assert shop["tokens"] == [
        {"sha256_prefix": "0a0a0a0a", "last_used": "2023-11-14T22:13:20.000Z"},
        {"sha256_prefix": "0b0b0b0b", "last_used": None},
    ]
    (own,) = viewer["tokens"]  # this process checks the tokens of readers and operators
    assert own["last_used"] >= viewer["tokens_since"]
    by_name = {page["producer"]: page["tokens"] for page in listed["producers"]}
    assert by_name["shop"] == shop["tokens"]


async def test_without_tokens_a_producer_shows_none(
    instance: FakeInstance, client: TestClient[Any, Any]
) -> None:
    assert (await (await client.get("/v1/producers/shop")).json())["tokens"] == []


async def test_without_authentication_others_may_look_but_not_change(
    instance: FakeInstance, tmp_path: Path
) -> None:
    """A worker hands the request on and says who asked; the same for loopback and for others."""
    http = Settings().http
    app = management_app(admin_of(instance))
    same_port = type(http)(port=1, management_port=1)
    async with management_sites(app, same_port, tmp_path / "parent.sock"):
        secret = (tmp_path / PARENT_SECRET).read_text()
        connector = aiohttp.UnixConnector(str(tmp_path / "parent.sock"))
        async with aiohttp.ClientSession(connector=connector) as session:
            for remote, status in (("192.0.2.7", 403), ("127.0.0.1", 200), ("::1", 200)):
                headers = handed_on(Peer(remote), [], secret)
                url = "http://parent/v1/suppression/deals"
                async with session.delete(url, headers=headers) as answer:
                    assert answer.status == status
                async with session.get("http://parent/v1/topics", headers=headers) as answer:
                    assert answer.status == 200


async def test_a_client_cannot_claim_to_be_somewhere_else(
    instance: FakeInstance, client: TestClient[Any, Any]
) -> None:
    headers = {"X-Headgate-Remote": "192.0.2.7"}
    assert (await client.delete("/v1/suppression/deals", headers=headers)).status == 200


async def test_a_forwarded_request_arrives_as_it_was_sent(
    instance: FakeInstance, tmp_path: Path
) -> None:
    """Through a worker's data port: path, query, status and headers; the claimed address not."""
    forward = Forward(tmp_path)
    async with RawTestServer(forward) as front, aiohttp.ClientSession() as session:
        url = front.make_url("/v1/suppression/deals?key=a%2Fb")
        async with session.delete(url) as answer:
            assert answer.status == 500  # no parent there
        app = management_app(admin_of(instance))
        same_port = type(instance.settings.http)(port=1, management_port=1)
        async with management_sites(app, same_port, tmp_path / "parent.sock"):
            headers = {"X-Headgate-Remote": "192.0.2.7", "X-Request-Id": "r-1"}
            async with session.delete(url, headers=headers) as answer:
                assert answer.status == 200
            assert instance.forgotten == [("deals", b"a/b")]
            async with session.get(front.make_url("/v1/none"), headers=headers) as answer:
                assert answer.status == 404
                assert answer.headers["X-Request-Id"] == "r-1"
                assert answer.content_type == "application/problem+json"
    await forward.close()


async def test_the_newest_audits(
    instance: FakeInstance, client: TestClient[Any, Any], guarded: TestClient[Any, Any]
) -> None:
    empty = await client.get("/v1/audits/latest")
    assert empty.status == 404
    assert "headgate-spark audit" in (await empty.json())["detail"]
    for topic in ("orders", "deals"):
        page = {"topic": topic, "generated_at": "2026-01-31T12:00:00.000Z", "diagnoses": []}
        instance.audited[topic] = orjson.dumps(page)
    every = await (await client.get("/v1/audits/latest")).json()
    assert [one["topic"] for one in every["topics"]] == ["deals", "orders"]
    one = await (await client.get("/v1/audits/latest?topic=orders")).json()
    assert [each["topic"] for each in one["topics"]] == ["orders"]
    assert (await client.get("/v1/audits/latest?topic=none")).status == 404
    instance.failure = Failure(Reason.KAFKA_UNAVAILABLE, "no answer", retry_after_s=1)
    assert (await client.get("/v1/audits/latest")).status == 503
    assert (await guarded.get("/v1/audits/latest")).status == 401
