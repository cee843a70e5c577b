"""The control plane's audits: all that are kept of a topic, and what differs between two."""

from __future__ import annotations

from urllib.parse import quote

import orjson
from aiohttp.test_utils import TestClient, TestServer

from headgate.admin.app import management_app
from headgate.audits.results import MAX_ROWS
from headgate.model.outcome import Failure, Reason
from support.console import audits, world
from support.gateway.admin_world import admin_of
from support.scenarios import skew_world

OLDEST, NEWEST = (quote(audits.made_at(number)) for number in (0, 2))


def client_of(instance: world.ConsoleInstance) -> TestClient:  # type: ignore[type-arg]
    return TestClient(TestServer(management_app(admin_of(instance))))


async def test_all_that_are_kept_of_a_topic() -> None:
    instance = world.empty()
    instance.audited = audits.some()
    async with client_of(instance) as client:
        found = (await (await client.get("/v1/audits?topic=worse")).json())["audits"]
        assert [one["generated_at"] for one in found] == [audits.made_at(at) for at in (2, 1, 0)]
        assert all(len(one["top_keys"]) <= MAX_ROWS for one in found)
        assert "what_if" not in found[0]
        assert (await client.get("/v1/audits")).status == 400
        assert (await client.get("/v1/audits?topic=none")).status == 404
        instance.failure = Failure(Reason.KAFKA_UNAVAILABLE, "no answer", retry_after_s=1)
        assert (await client.get("/v1/audits?topic=worse")).status == 503


async def test_comparison_of_two_audits_shows_their_differences() -> None:
    instance = world.empty()
    instance.audited = audits.some()
    async with client_of(instance) as client:
        address = "/v1/audits/comparison?topic=worse"
        found = await (await client.get(address)).json()
        assert (found["before"], found["after"]) == (audits.made_at(1), audits.made_at(2))
        assert found["change"] == "worse"
        assert found["diagnoses"]["came"] == ["chatty", "large"]
        assert found["keys"][0]["key"] == "2342565"
        assert found["keys"][0]["change"] == "new"
        assert found["keys"][0]["before"] is None
        figures = {one["name"]: one for one in found["figures"]}
        bytes_ = figures["bytes"]
        assert bytes_["difference"] == bytes_["after"] - bytes_["before"]
        found = await (await client.get(f"{address}&before={NEWEST}&after={OLDEST}")).json()
        assert found["keys"][0]["change"] == "gone"
        for wrong in (f"&after={OLDEST}", "&before=then", "&after="):
            assert (await client.get(address + wrong)).status == 404
        assert (await client.get("/v1/audits/comparison?topic=new")).status == 404
        assert (await client.get("/v1/audits/comparison")).status == 400


async def test_a_list_reads_each_document_once() -> None:
    instance = world.empty()
    instance.audited = {"orders": audits.audited("orders", skew_world.uniform)}
    admin = admin_of(instance)
    heads = await admin.audits.heads()
    assert heads["orders"][0].keys == ()
    assert (await admin.audits.heads())["orders"] is heads["orders"]
    instance.audited = {"deals": orjson.dumps({"topic": "deals"})}
    assert await admin.audits.heads() == {"deals": []}
