"""Every example of the pages, with the real curl against a real gateway, Kafka and Redis."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from redis import Redis

from headgate.consumer.claims import ClaimChecks
from headgate.devstack.stack import (
    create_internal,
    create_missing,
    effective_config,
    to_toml,
    topics_to_create,
)
from headgate.model.keys import partition_for
from headgate.oversize.chunks import rebuild
from support.gateway.quarantine import out_of_quarantine
from support.kafka.kafka_log import read_log
from support.pages import (
    DOCS,
    IN_ORDER,
    ON_THE_MOVE,
    Example,
    examples,
    examples_of,
    run,
    sources,
)
from support.process.stack import PATIENCE, Gateway, RunningBroker, RunningRedis, eventually
from support.scale import scaled

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

SAMPLE_QUARANTINE_MS = 1000
# Each language's program of "First event": its file, and what runs it.
PROGRAMS = {
    "python": ("first_event.py", sys.executable),
    "js": ("first_event.mjs", "node"),
    "java": ("FirstEvent.java", "java"),
    "go": ("first_event.go", "go", "run"),
}
GATEWAY = "http://127.0.0.1:8080"
_MANAGEMENT = "http://127.0.0.1:9090"  # where pages are only looked at


@pytest_asyncio.fixture
async def gateway(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
) -> AsyncIterator[tuple[Gateway, RunningBroker]]:
    """A gateway with the sample configuration of `headgate dev` and empty sample topics."""
    broker, redis = start_broker(), start_redis()
    addresses = {
        "clusters": {
            "main": {"bootstrap_servers": [broker.bootstrap]},
            "main-backfill": {"bootstrap_servers": [broker.bootstrap]},
        },
        "redis": {"url": redis.url},
        "blobs": {"url": f"file://{tmp_path / 'blobs'}"},
    }
    config = effective_config({}, addresses)
    await create_missing(broker.bootstrap, topics_to_create(config))
    file = tmp_path / "headgate.toml"
    file.write_text(to_toml(config))
    assert "headgate.held.deals-coalesced" in create_internal(file, print)
    started = start_gateway(to_toml(config))
    # The gateway opens the namespaces of `deals` and `deals-coalesced` itself.
    with Redis.from_url(redis.url) as client:
        await eventually(
            lambda: out_of_quarantine(client, "headgate", SAMPLE_QUARANTINE_MS) == 2, 20
        )
    yield started, broker


async def _wrong(example: Example, gateway: Gateway) -> list[str]:
    """How an example's answer differs. Figures are up to a second old: they are waited for."""
    found = _run(example, gateway)
    end = time.monotonic() + 5 * PATIENCE
    while found and _MANAGEMENT in example.command and time.monotonic() < end:
        await asyncio.sleep(0.2)
        found = _run(example, gateway)
    return found


def _run(example: Example, gateway: Gateway) -> list[str]:
    addresses = {GATEWAY: gateway.url, _MANAGEMENT: gateway.management_url}
    return run(example, addresses)


def test_no_page_with_examples_is_left_out() -> None:
    names = (str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md"))
    assert {name for name in names if any(examples_of(name))} == {*IN_ORDER, *ON_THE_MOVE}


@pytest.mark.parametrize("languages", scaled(["python", "js"], list(PROGRAMS)))
async def test_every_example_answers_what_it_says(
    gateway: tuple[Gateway, RunningBroker], tmp_path: Path, languages: list[str]
) -> None:
    assert shutil.which("curl"), "this test needs curl"
    started, broker = gateway
    shown = list(examples())
    assert len(shown) >= 31
    wrong = [f"{one.place}: {text}" for one in shown for text in await _wrong(one, started)]
    wrong += await asyncio.to_thread(_run_the_programs, started, tmp_path, languages)
    assert not wrong, "\n".join(wrong)
    _the_log_has_it(broker)
    await _consumers_get_what_was_too_large(broker, f"file://{tmp_path / 'blobs'}")
    await eventually(
        lambda: _last_of(broker, "deals-coalesced") == b'{"id": "7", "price": 179}', 30
    )


def _run_the_programs(gateway: Gateway, folder: Path, languages: list[str]) -> list[str]:
    """Run the page's programs that this machine has a language for; return what went wrong."""
    wrong = []
    for language in languages:
        name, *command = PROGRAMS[language]
        if shutil.which(command[0]) is None:
            continue
        (source,) = sources("publish/first-event", language)
        file = folder / name
        file.write_text(source.replace(GATEWAY, gateway.url))
        ended = subprocess.run([*command, file], capture_output=True, timeout=180, check=False)
        if not (ended.stdout.startswith(b"201 ") and b"published" in ended.stdout):
            wrong.append(f"{language}: {ended.stdout!r} {ended.stderr!r}")
    return wrong


def _last_of(broker: RunningBroker, topic: str) -> bytes | None:
    log = read_log(broker.bootstrap, topic)
    return log[-1].value if log else None


async def _consumers_get_what_was_too_large(broker: RunningBroker, blobs: str) -> None:
    (told,) = read_log(broker.bootstrap, "documents-notify")
    assert (told.value, told.header("hg-oversize")) == (b"", b"key-only")
    assert told.header("hg-value-bytes") == b"1200028"
    (film,) = read_log(broker.bootstrap, "documents-stored")
    assert film.value == b""
    assert await ClaimChecks(blobs).value(film) == bytes(20_000_000)
    parts = read_log(broker.bootstrap, "deals-split")
    (manifest,) = (one for one in parts if one.key == b"2342565")
    elements = {one.key: one.value for one in parts if one is not manifest}
    deal = json.loads(rebuild(manifest.value, elements))
    assert [option["id"] for option in deal["options"]] == [f"option-{n}" for n in range(600)]


def _the_log_has_it(broker: RunningBroker) -> None:
    """What an independent client reads of these events: bytes, key, partition, headers."""
    deals: list[Any] = [one for one in read_log(broker.bootstrap, "deals") if one.key == b"2342565"]
    value = b'{"id": "2342565", "title": "City break", "price": 199}'
    assert [one.value for one in deals] == [value, value]
    assert [one.offset for one in deals] == [0, 1]
    assert {one.partition for one in deals} == {partition_for(b"2342565", 12)}
    assert deals[0].header("hg-producer") == b"me"
    assert deals[0].header("content-type") == b"application/json"
    orders = read_log(broker.bootstrap, "orders")
    assert {one.value for one in orders if one.key == b"2"} == {
        b'{"order_id": 2, "total": 35.50}',  # the zero is still there
        b'{"paid": true}',
    }
    paid = next(one for one in orders if one.value == b'{"order_id": 1, "paid": true}')
    assert (paid.header("ce_id"), paid.header("ce_type")) == (b"e-1", b"order.paid")
    documents = {one.key: one for one in read_log(broker.bootstrap, "documents")}
    assert documents.keys() == {b"terms", b"icon", b"old", b"logo", b"7", b"photo"}
    assert len(documents[b"7"].value or b"") == 1_200_028  # compressed on the wire only
    assert documents[b"photo"].header("hg-chunk-bytes") == b"2000000"
    assert documents[b"terms"].value == '{"text": "…"}'.encode()
    assert documents[b"old"].value is None
    assert documents[b"icon"].header("content-type") == b"image/png"
    logo = documents[b"logo"]
    assert (logo.key, logo.value) == (b"logo", b"\x89PNG\r\n")
    assert logo.header("author") == b"Ada"
