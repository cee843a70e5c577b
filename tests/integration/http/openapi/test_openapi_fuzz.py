"""A fuzzer reads /openapi.json and posts what it allows: nothing undocumented may come back.

Every operation of both ports, against a real gateway, Kafka and Redis. Statuses, content types and
bodies must be as declared, and no 5xx but 503 and 504, which say that Kafka is away or late.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headgate.config.settings import HttpSettings
from headgate.http.openapi.document import operations
from support.clients.http_client import exchange
from support.gateway.confluent_world import ConfluentWorld, running_confluent
from support.process.stack import RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CHECKS = [content_type_conformance, response_schema_conformance, status_code_conformance]
OPERATIONS = [(one.method, one.path) for one in operations(HttpSettings())]
# requests sends header values as Latin-1 at most; what else may stand in them, other tests send.
PLAIN = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)

load_all_checks()


@schemathesis.serializer("application/x-ndjson")
def ndjson(_context: Any, value: Any) -> bytes:
    """Lines come as text already."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


@pytest.fixture(scope="module")
def world(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConfluentWorld]:
    with running_confluent(kafka, redis_server, tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def api(world: ConfluentWorld) -> Any:
    """The document as the gateway serves it, at both ports alike."""
    document = world.get("/openapi.json").document
    management = exchange(world.gateway.management_port, "GET", "/openapi.json").document
    assert document == management
    for methods in document["paths"].values():
        for one in methods.values():
            one.pop("servers", None)  # the tests choose the address
    # The document names one type of body a content type, for generated clients; more is taken.
    bodies = document["paths"]["/v1/topics/{topic}/events"]["post"]["requestBody"]["content"]
    bodies["application/json"]["schema"] = {}
    batch = {"type": "array", "items": {"$ref": "#/components/schemas/CloudEvent"}}
    bodies["application/cloudevents-batch+json"] = {"schema": batch}
    return schemathesis.openapi.from_dict(document)


def fuzz(world: ConfluentWorld, api: Any, method: str, path: str, examples: int) -> None:
    operation = api[path][method]
    port = operation.definition.raw["x-headgate-port"]
    base = world.gateway.url if port != "management" else world.gateway.management_url
    topics = [world.topic(short) for short in ("keyed", "plain", "state", "missing")]
    session = requests.Session()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def one(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy())
        parts = case.path_parameters
        if "topic" in parts and data.draw(st.integers(0, 9)):
            parts["topic"] = data.draw(st.sampled_from(topics))
        if "cluster_id" in parts and data.draw(st.integers(0, 9)):
            parts["cluster_id"] = world.cluster_id
        response = case.call(base_url=base, session=session, timeout=120)
        assert response.status_code < 500 or response.status_code in (503, 504), response.text
        case.validate_response(response, checks=CHECKS)

    with session:
        one()


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_nothing_undocumented_comes_back(
    world: ConfluentWorld, api: Any, method: str, path: str
) -> None:
    fuzz(world, api, method, path, 30 if method == "POST" else 10)


@pytest.mark.full
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_nothing_undocumented_comes_back_at_length(
    world: ConfluentWorld, api: Any, method: str, path: str
) -> None:
    fuzz(world, api, method, path, 1500 if method == "POST" else 200)
