"""The linters that people run over /openapi.json, and clients generated from it that really post.

They come from npm and PyPI, pinned, so this runs with the full figures only, and says there what
is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.gateway.confluent_world import ConfluentWorld, running_confluent
from support.process.stack import RunningBroker, RunningRedis

pytestmark = [pytest.mark.full, pytest.mark.kafka, pytest.mark.redis]

REDOCLY, SPECTRAL = "@redocly/cli@2.77.0", "@stoplight/spectral-cli@6.16.3"
TYPES = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0")
HEY_API = "@hey-api/openapi-ts@0.95.0"
RUNS_TYPESCRIPT = ("tsx@4.23.15", "typescript@5.9.3", "@types/node@20")
PYTHON_CLIENT = ("openapi-python-client==0.29.1", "ruff==0.17.6", "httpx==0.28.1")
# What each client does, in this order: one event, a batch, who produces.
ENVELOPE = {"events": [{"key": "b-1", "value": {"id": "b-1"}}, {"key": "b-2", "value": {"id": 2}}]}
IN_PYTHON = """
import json, sys
sys.path.insert(0, "client")
from headgate_client import Client
from headgate_client.api.control_plane import get_v1_producers
from headgate_client.api.events import post_v1_topics_topic_events as post
from headgate_client.models import Envelope, Event
data, management, topic, envelope = sys.argv[1:]
one = post.sync(topic, client=Client(base_url=data), body=Event.from_dict({"id": "one"}))
many = post.sync(
    topic, client=Client(base_url=data), body=Envelope.from_dict(json.loads(envelope)))
who = get_v1_producers.sync(client=Client(base_url=management))
print(json.dumps([one.outcome, many.summary.to_dict(), who.to_dict()]))
"""
IN_TYPES = """
import createClient from "openapi-fetch";
import type { paths } from "./api";
const [data, management, topic, envelope] = process.argv.slice(2);
const events = createClient<paths>({ baseUrl: data });
const params = { path: { topic } };
const one = await events.POST("/v1/topics/{topic}/events", { params, body: { id: "one" } });
const many = await events.POST("/v1/topics/{topic}/events", {
  params, body: JSON.parse(envelope),
  headers: { "Content-Type": "application/vnd.headgate.batch+json" } });
const who = await createClient<paths>({ baseUrl: management }).GET("/v1/producers");
const outcome = one.data && "outcome" in one.data ? one.data.outcome : one.error;
const summary = many.data && "summary" in many.data ? many.data.summary : many.error;
console.log(JSON.stringify([outcome, summary, who.data]));
"""
IN_HEY_API = """
import { getV1Producers, postV1TopicsTopicEvents } from "./client";
const [data, management, topic, envelope] = process.argv.slice(2);
const path = { topic };
const one = await postV1TopicsTopicEvents({ baseUrl: data, path, body: { id: "one" } });
const many = await postV1TopicsTopicEvents({
  baseUrl: data, path, body: JSON.parse(envelope),
  headers: { "Content-Type": "application/vnd.headgate.batch+json" } });
const who = await getV1Producers({ baseUrl: management });
const outcome = one.data && "outcome" in one.data ? one.data.outcome : one.error;
const summary = many.data && "summary" in many.data ? many.data.summary : many.error;
console.log(JSON.stringify([outcome, summary, who.data]));
"""


@pytest.fixture(scope="module")
def world(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConfluentWorld]:
    with running_confluent(kafka, redis_server, tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
def folder(world: ConfluentWorld, tmp_path: Path) -> Path:
    """With the document in it, as the gateway serves it."""
    document = world.get("/openapi.json").document
    (tmp_path / "openapi.json").write_text(json.dumps(document))
    (tmp_path / "package.json").write_text('{"type": "module"}')
    return tmp_path


def run(folder: Path, *command: str) -> str:
    """Its output; pytest shows all of it when it fails."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed(folder: Path, *packages: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("node and npm are not on this machine")
    run(folder, npm, "install", "--silent", "--no-audit", "--no-fund", *packages)


def check_said(world: ConfluentWorld, text: str, topic: str) -> None:
    """Both requests were answered well, both are in the log, and the producer is known."""
    outcome, summary, producers = json.loads(text.splitlines()[-1])
    assert (outcome, summary) == ("published", {"published": 2})
    assert producers["producers"]
    written = sorted(record.value or b"" for record in world.log.take(topic))
    assert [json.loads(value)["id"] for value in written] == ["b-1", "one", 2]


def arguments(world: ConfluentWorld, topic: str) -> tuple[str, ...]:
    return world.gateway.url, world.gateway.management_url, topic, json.dumps(ENVELOPE)


def test_linters_find_no_fault(folder: Path) -> None:
    installed(folder, REDOCLY, SPECTRAL)
    bin_folder = folder / "node_modules" / ".bin"
    run(folder, str(bin_folder / "redocly"), "lint", "openapi.json")
    (folder / ".spectral.yaml").write_text('extends: ["spectral:oas"]\n')
    severe = ("--fail-severity", "warn")
    run(folder, str(bin_folder / "spectral"), "lint", *severe, "openapi.json")


def test_openapi_python_client(world: ConfluentWorld, folder: Path) -> None:
    topic = world.topic("keyed")
    world.log.take(topic)
    run(folder, sys.executable, "-m", "venv", "venv")
    tools = folder / "venv" / "bin"
    run(folder, str(tools / "python"), "-m", "pip", "install", "--quiet", *PYTHON_CLIENT)
    generate = ("generate", "--path", "openapi.json", "--output-path", "client")
    path = f"{tools}:{os.environ['PATH']}"  # it formats what it made with ruff
    run(folder, "env", f"PATH={path}", str(tools / "openapi-python-client"), *generate)
    (folder / "use.py").write_text(IN_PYTHON)
    said = run(folder, str(tools / "python"), "-I", "use.py", *arguments(world, topic))
    check_said(world, said, topic)


@pytest.mark.parametrize(
    ("packages", "generate", "program"),
    [
        (TYPES, ("openapi-typescript", "openapi.json", "-o", "api.ts"), IN_TYPES),
        (
            (HEY_API,),
            ("openapi-ts", "-i", "openapi.json", "-o", "client", "-c", "@hey-api/client-fetch"),
            IN_HEY_API,
        ),
    ],
    ids=["openapi-typescript", "hey-api"],
)
def test_generators_for_typescript(
    world: ConfluentWorld,
    folder: Path,
    packages: tuple[str, ...],
    generate: tuple[str, ...],
    program: str,
) -> None:
    topic = world.topic("keyed")
    world.log.take(topic)
    installed(folder, *packages, *RUNS_TYPESCRIPT)
    bin_folder = folder / "node_modules" / ".bin"
    tool, *options = generate
    run(folder, str(bin_folder / tool), *options)
    (folder / "use.ts").write_text(program)
    strict = ("--strict", "--noEmit", "--skipLibCheck", "--module", "esnext", "--target", "es2022")
    resolution = ("--moduleResolution", "bundler", "--types", "node")
    run(folder, str(bin_folder / "tsc"), *strict, *resolution, "use.ts")
    said = run(folder, str(bin_folder / "tsx"), "use.ts", *arguments(world, topic))
    check_said(world, said, topic)
