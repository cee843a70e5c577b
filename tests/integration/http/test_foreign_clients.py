"""Clients that were not written here, against a real gateway.

Python's CloudEvents SDK runs always. Those for JavaScript need node and npm, so they run with the
full figures only, and say there what is missing.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import requests
from cloudevents.core.bindings.http import HTTPMessage, to_binary_event, to_structured_event
from cloudevents.core.bindings.kafka import KafkaMessage, from_binary_event
from cloudevents.core.v1.event import CloudEvent

from support.clients.http_client import events_path
from support.gateway.confluent_world import ConfluentWorld, running_confluent
from support.kafka.kafka_log import LogRecord
from support.process.stack import RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CLOUDEVENTS_JS = "cloudevents@10.0.0"
KAFKA_REST_JS = "kafka-rest@0.0.5"  # Confluent's own, last published in 2016
SEND_JS = """
const { CloudEvent, HTTP, emitterFor, httpTransport, Mode } = require("cloudevents");
const send = (mode) => emitterFor(httpTransport(process.argv[2]), { mode });
const event = (id) => new CloudEvent({
  id, type: "order.paid", source: "/js", subject: "js", data: { id: 7, total: "12 €" } });
(async () => {
  await send(Mode.BINARY)(event("js-binary"));
  await send(Mode.STRUCTURED)(event("js-structured"));
})();
"""
# It was written for v1, whose produce requests are v2's but for the media type.
PRODUCE_JS = """
const KafkaRest = require("kafka-rest");
KafkaRest.prototype.SUPPORTED_VERSIONS.push(2);
const [, , url, name] = process.argv;
const kafka = new KafkaRest({ url, version: 2 });
kafka.config.requestContentType = "application/vnd.kafka.binary.v2+json";
const topic = kafka.topic(name);
const asked = (ask) => new Promise((resolve, reject) =>
  ask((error, answer) => (error ? reject(Error(JSON.stringify(error))) : resolve(answer))));
(async () => {
  const many = [{ key: "k", value: "one" }, "two", { partition: 2, value: "three" }];
  const one = { key: "k", value: "four" };
  console.log(JSON.stringify([
    await asked((then) => topic.produce(many, then)),
    await asked((then) => topic.partition(1).produce(one, then)),
    (await asked((then) => topic.get(then))).raw.partitions.length,
  ]));
})();
"""


@pytest.fixture(scope="module")
def world(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConfluentWorld]:
    with running_confluent(kafka, redis_server, tmp_path_factory.mktemp("gateway")) as running:
        yield running


def event_url(world: ConfluentWorld) -> str:
    return world.gateway.url + events_path(world.topic("keyed"))


def read_back(record: LogRecord) -> CloudEvent:
    """The event as the SDK's own Kafka binding reads it from the log."""
    headers = {name: value or b"" for name, value in record.headers}
    message = KafkaMessage(headers, record.key, record.value or b"")
    event = from_binary_event(message)
    assert isinstance(event, CloudEvent)
    return event


@pytest.mark.parametrize("to_http", [to_binary_event, to_structured_event])
def test_pythons_cloudevents_sdk(world: ConfluentWorld, to_http: object) -> None:
    """What its HTTP binding sends, its Kafka binding reads: attributes, data and key."""
    topic = world.topic("keyed")
    world.log.take(topic)
    attributes = {
        "id": "py-1", "type": "order.paid", "source": "/shop", "specversion": "1.0",
        "subject": 'ünï "quoted" 100 %', "datacontenttype": "application/json",
        "time": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    }  # fmt: skip
    assert callable(to_http)
    message: HTTPMessage = to_http(CloudEvent(attributes, {"id": 7, "total": "12 €"}))
    answer = requests.post(event_url(world), message.body, headers=message.headers, timeout=60)
    assert answer.status_code == 201, answer.text
    (record,) = world.log.take(topic)
    assert record.key == attributes["subject"].encode()  # type: ignore[attr-defined]
    event = read_back(record)
    assert event.get_data() == {"id": 7, "total": "12 €"}
    assert {name: event.get_attributes()[name] for name in attributes} == attributes
    assert answer.json()["event_id"] == "py-1"


def test_python_sdks_structured_events_in_a_batch(world: ConfluentWorld) -> None:
    """The SDK has no batch; its structured events in an array are one."""
    world.log.take(world.topic("keyed"))
    bodies = []
    for number in range(3):
        attributes = {"id": f"b-{number}", "type": "t", "source": "/s", "specversion": "1.0"}
        bodies.append(to_structured_event(CloudEvent(attributes, {"id": number})).body)
    answer = requests.post(
        event_url(world), b"[" + b",".join(bodies) + b"]", timeout=60,
        headers={"Content-Type": "application/cloudevents-batch+json"},
    )  # fmt: skip
    assert (answer.status_code, answer.json()["summary"]) == (200, {"published": 3})
    found = {read_back(one).get_id() for one in world.log.take(world.topic("keyed"))}
    assert found == {"b-0", "b-1", "b-2"}


@pytest.mark.full
def test_javascripts_cloudevents_sdk(world: ConfluentWorld, tmp_path: Path) -> None:
    # Its binary mode does not percent-encode header values, as the HTTP binding asks for: a subject
    # beyond ASCII leaves it as bytes that are no UTF-8, and is refused.
    world.log.take(world.topic("keyed"))
    run_script(tmp_path, CLOUDEVENTS_JS, SEND_JS, event_url(world))
    events = {one.get_id(): one for one in map(read_back, world.log.take(world.topic("keyed")))}
    assert events.keys() == {"js-binary", "js-structured"}
    for event in events.values():
        assert event.get_data() == {"id": 7, "total": "12 €"}
        assert event.get_subject() == "js"
        assert json.dumps(event.get_source()) == '"/js"'


@pytest.mark.full
def test_confluents_client_for_javascript(world: ConfluentWorld, tmp_path: Path) -> None:
    topic = world.topic("plain")
    world.log.take(topic)
    said = run_script(tmp_path, KAFKA_REST_JS, PRODUCE_JS, world.gateway.url, topic)
    many, one, partitions = json.loads(said)
    log = {(record.partition, record.offset): record for record in world.log.take(topic)}
    places = [(each["partition"], each["offset"]) for each in many["offsets"] + one["offsets"]]
    values = [(log[place].key, log[place].value) for place in places]
    assert values == [(b"k", b"one"), (None, b"two"), (None, b"three"), (b"k", b"four")]
    assert (places[2][0], places[3][0]) == (2, 1)
    assert partitions == 3


def run_script(folder: Path, package: str, script: str, *arguments: str) -> str:
    """What a program for node says that uses a package of npm's."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not on this machine")
    subprocess.run([npm, "install", "--silent", package], cwd=folder, check=True, timeout=120)
    (folder / "script.js").write_text(script)
    command = [node, "script.js", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout
