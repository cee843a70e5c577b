"""Expect: 100-continue: the body is asked for once topic, options and quota have been looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from headgate.config.settings import ProducerSettings
from headgate.ingest.admission import ProducerQuotas
from headgate.model.outcome import Failure, Reason
from support.gateway.data_plane_world import DataPort, data_port

V1, V2 = "/v1/topics/{}/events", "/topics/{}"
V3 = "/v3/clusters/c-1/topics/{}/records"
TYPES = {V1: "application/json", V2: "application/vnd.kafka.json.v2+json", V3: "application/json"}
BODIES = {
    V1: b'{"id":1}',
    V2: b'{"records":[{"key":"k","value":1}]}',
    V3: b'{"key":{"type":"STRING","data":"k"}}',
}


async def expecting(
    port: DataPort, path: str, topic: str, headers: Mapping[str, str], *, chunked: bool = False
) -> list[int]:
    """The statuses that come; the body is sent once 100 has."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
    try:
        body = BODIES[path]
        length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
        lines = [f"POST {path.format(topic)} HTTP/1.1", "Host: a", length, "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, f"Content-Type: {TYPES[path]}", "", ""]).encode())
        async with asyncio.timeout(30):
            first = await reader.readuntil(b"\r\n")
            if first.split()[1] != b"100":
                return [int(first.split()[1])]
            writer.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body)
            await reader.readuntil(b"\r\n")
            second = await reader.readuntil(b"\r\n")
            return [100, int(second.split()[1])]
    finally:
        writer.close()


@pytest.mark.parametrize("path", [V1, V2, V3])
@pytest.mark.parametrize("expect", ["100-continue", "100-Continue"])
async def test_the_body_is_asked_for(path: str, expect: str) -> None:
    async with data_port() as port:
        found = await expecting(port, path, "deals", {"Expect": expect})
        assert found[0] == 100
        assert found[1] in (200, 201)


@pytest.mark.parametrize("path", [V1, V2, V3])
async def test_nobody_is_asked_for_a_body_to_a_topic_that_is_not_there(path: str) -> None:
    async with data_port() as port:
        assert await expecting(port, path, "nothing", {"Expect": "100-continue"}) == [404]


@pytest.mark.parametrize("path", [V1, V2, V3])
async def test_nobody_is_asked_for_a_body_whose_options_are_wrong(path: str) -> None:
    async with data_port() as port:
        headers = {"Expect": "100-continue", "Headgate-Force": "yes"}
        assert await expecting(port, path, "deals", headers) == [400]


class Meter:
    """Counts what a quota refuses."""

    def __init__(self) -> None:
        self.rejected = 0

    def quota_rejected(self, producer: str, count: int) -> None:
        self.rejected += count


@pytest.mark.parametrize(("path", "chunked"), [(V1, False), (V2, False), (V3, False), (V3, True)])
async def test_nobody_is_asked_for_a_body_beyond_the_quota(path: str, chunked: bool) -> None:
    meter = Meter()
    quotas = ProducerQuotas(1, lambda: 0.0, meter.quota_rejected)
    quotas.replace({"shop": ProducerSettings(quota_events_per_s=1)})
    async with data_port(quotas=quotas) as port:
        headers = {"Expect": "100-continue", "Headgate-Producer": "shop"}
        if not chunked:  # what is only looked at spends nothing
            for _ in range(2):
                assert quotas.refusal("shop", 10) is None
        assert quotas.check("shop", 1, 10) is None
        assert await expecting(port, path, "deals", headers, chunked=chunked) == [429]
        assert meter.rejected == 1
        failure = quotas.refusal("shop", 10)
        assert isinstance(failure, Failure)
        assert failure.reason is Reason.QUOTA_EXCEEDED
