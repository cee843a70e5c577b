"""A mistake of ours on Confluent's paths: its answer has Confluent's shape, as every other."""

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp.test_utils import make_mocked_request

from headgate.formats import confluent
from headgate.http.confluent.service import ProduceService
from headgate.http.events import Call, EventsFront
from headgate.kafka.topics import KafkaTopics
from headgate.model.outcome import Failure, Reason


class Events:
    """As much of the front as the service asks for where nothing is published."""

    def __init__(self) -> None:
        self.told_failures: list[Failure] = []
        self.counted: list[tuple[str, int]] = []
        self.authenticator = SimpleNamespace(
            identify=lambda *_: Failure(Reason.UNAUTHENTICATED, "")
        )
        self.request_log = SimpleNamespace(logs_every_request=False, refused=self._told)

    def call_of(self, request: Any) -> Call:
        return Call(request, {}, "id", 0.0, {"request_id": "id", "producer": ""})

    def now(self) -> float:
        return 1.0

    def _told(
        self, failure: Failure, _request_id: str, _trace: None = None, **_known: object
    ) -> None:
        self.told_failures.append(failure)

    def count(self, path: str, status: int, _seconds: float, _id: str, _trace: None) -> None:
        self.counted.append((path, status))


async def broken(_asked: Call) -> Any:
    raise KeyError("nobody outside is told this")


def request(sent_bytes: int) -> Any:
    writer = SimpleNamespace(output_size=sent_bytes)
    return make_mocked_request("GET", "/topics", writer=cast(Any, writer))


async def test_a_mistake_of_ours_has_the_shape_of_the_path(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = Events()
    service = ProduceService(cast(EventsFront, events), cast(KafkaTopics, None), 1000)
    answer: Any = await service.answer(request(0), "/topics", confluent.V2_TYPE, broken)
    assert (answer.status, answer.content_type) == (500, confluent.V2_TYPE)
    assert json.loads(answer.body) == {"error_code": 50003, "message": "an internal error"}
    assert events.counted == [("/topics", 500)]
    assert [one.reason for one in events.told_failures] == [Reason.INTERNAL]
    assert "request failed" in caplog.text


async def test_an_answer_that_is_under_way_is_broken_off() -> None:
    service = ProduceService(cast(EventsFront, Events()), cast(KafkaTopics, None), 1000)
    with pytest.raises(KeyError):
        await service.answer(request(10), "/topics", confluent.V2_TYPE, broken)
