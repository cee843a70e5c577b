"""Whoever counts a reject is told the id of its request, wherever it was refused."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headgate.config.settings import AuthSettings, HttpSettings, ProducerSettings
from headgate.http.auth import Authenticator
from headgate.metrics.meter import Meter
from support.gateway.admin_world import TOKENS
from support.gateway.data_plane_world import DataPort, PromptRoom, data_port
from support.gateway.meters import a_meter, counted, reject_ids

JSON = {"Content-Type": "application/json"}
LONG = {"Origin": "http://gateway"}  # takes aiohttp's way through the server
SHOP = {"Authorization": "Bearer shop-token"}


@pytest.fixture
def front() -> Meter:
    return a_meter()


@pytest.fixture
async def port(front: Meter) -> AsyncIterator[DataPort]:
    shop = ProducerSettings(token_sha256=TOKENS["shop"].token_sha256, topics=("orders",))
    callers = Authenticator(AuthSettings(mode=("token",)), {"shop": shop})
    limits = HttpSettings(body_max_bytes=10_000)
    async with data_port(PromptRoom(), limits, callers=callers, requests=front) as running:
        yield running


@pytest.mark.parametrize("way", [{}, LONG], ids=["short", "long"])
async def test_a_reject_has_the_id_of_its_request(
    port: DataPort, front: Meter, way: dict[str, str]
) -> None:
    large = b'{"id": "' + b"x" * 20_000 + b'"}'
    for number, (topic, who, body, status) in enumerate(
        (
            ("orders", {}, b"{}", 401),
            ("deals", SHOP, b"{}", 403),
            ("orders", SHOP, large, 413),
            ("orders", SHOP, b"{", 400),
            ("orders", SHOP, b"{}", 422),
        )
    ):
        headers = {**JSON, **way, **who, "X-Request-Id": f"mine-{number}"}
        answer = await port.post(topic, body, headers)
        assert answer.status == status
    ids = [*reject_ids(front), *reject_ids(port.room.meter)]
    assert sorted(ids) == [f"mine-{number}" for number in range(5)]
    both = {**counted(front, "events"), **counted(port.room.meter, "events")}
    assert {outcome for _, _, outcome, _ in both} == {"rejected"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/topics/orders", "application/vnd.kafka.json.v2+json"),
        ("/v3/clusters/c-1/topics/orders/records", "application/json"),
    ],
)
async def test_so_has_one_of_confluents_pages(
    port: DataPort, front: Meter, path: str, kind: str
) -> None:
    headers = {"Content-Type": kind, "X-Request-Id": "mine-1"}
    assert (await port.ask("POST", path, headers, b"{}")).status == 401
    headers = {**headers, **SHOP, "X-Request-Id": "mine-2"}
    assert (await port.ask("POST", path, headers, b" " * 20_000)).status == 413
    assert sorted(reject_ids(front)) == ["mine-1", "mine-2"]
