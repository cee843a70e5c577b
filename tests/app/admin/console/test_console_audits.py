"""The pages of skew audits: what became worse, what if, and two compared."""

from __future__ import annotations

import re
import time
from urllib.parse import quote

import orjson
import pytest

from headgate.model.outcome import Failure, Reason
from support.console import audits, world
from support.console.pages import opened, text_of
from support.scenarios import skew_world


@pytest.fixture
def instance() -> world.ConsoleInstance:
    found = world.empty()
    found.audited = audits.some()
    return found


def rows_of(text: str) -> dict[str, str]:
    """Lines of the list, by topic."""
    rows = re.findall(r'<tr><th scope="row"><a href="/console/audits/.*?</tr>', text, re.DOTALL)
    return {row.split('"')[3].rpartition("/")[2]: row for row in rows}


async def test_the_list_says_what_became_of_each_topic(instance: world.ConsoleInstance) -> None:
    async with opened(instance) as client:
        rows = rows_of(await text_of(client, "/audits"))
        assert list(rows) == ["worse", "gone", "better", "new"]  # what most was found of
        assert "worse</span>" in rows["worse"]
        assert "better</span>" in rows["better"]
        assert "first audit" in rows["new"]
        since = quote(audits.made_at(1))
        rows = rows_of(await text_of(client, f"/audits?since={since}&sort=change"))
        assert next(iter(rows)) == "worse"
        assert "not audited since" in rows["gone"]
        assert "not audited since" in rows["new"]
        text = await text_of(client, f"/audits?since={since}")
        assert f'value="{audits.made_at(1)}" selected' in text


async def test_without_kafka_the_list_says_so(instance: world.ConsoleInstance) -> None:
    instance.failure = Failure(Reason.KAFKA_UNAVAILABLE, "no answer", retry_after_s=1)
    async with opened(instance) as client:
        text = await text_of(client, "/audits")
        assert "no answer" in text
        await text_of(client, "/audits/worse", 503)


@pytest.mark.parametrize(
    ("asked", "shown"),
    [("", 12), ("12", 12), ("24", 24), ("999999", 128), ("23", 24), ("0", 1), ("many", 12),
     ("9" * 5000, 12)],
)  # fmt: skip
async def test_what_if_it_had_as_many(
    instance: world.ConsoleInstance, asked: str, shown: int
) -> None:
    async with opened(instance) as client:
        text = await text_of(client, f"/audits/worse?partitions={asked}")
    assert f"With <b>{shown} partition{'s' if shown > 1 else ''}</b>" in text
    assert re.search(rf'<option value="{shown}" selected>', text)
    assert f"Bytes with {shown} partitions" in text
    assert text.count('class="chart"') == 2
    document = orjson.loads(instance.audited["worse"])
    row = next(one for one in document["what_if"] if one["partitions"] == shown)
    assert f"{row['max_over_mean_bytes']:.3g} times the mean of the bytes" in text
    assert "style=" not in text  # the policy forbids it


async def test_what_an_older_job_wrote_has_the_curve_alone(
    instance: world.ConsoleInstance,
) -> None:
    document = orjson.loads(instance.audited["worse"])
    del document["earlier"]
    for one in document["what_if"]:
        del one["load"]
    instance.audited["old"] = orjson.dumps(document)
    instance.audited["keyless"] = orjson.dumps(document | {"distinct_keys": 0})
    document["what_if"] = document["what_if"][:1]
    instance.audited["one"] = orjson.dumps(document)
    del document["window"]
    instance.audited["other"] = orjson.dumps(document)
    async with opened(instance) as client:
        text = await text_of(client, "/audits/old")
        assert text.count('class="chart"') == 1
        assert "This is the first audit" in text
        for topic in ("one", "keyless"):
            text = await text_of(client, f"/audits/{topic}")
            assert "No prediction" in text
            assert 'class="chart"' not in text
        assert "another release" in await text_of(client, "/audits/other", 404)
        assert "Written by another release" in await text_of(client, "/audits")


async def test_two_audits_of_a_topic_are_compared(instance: world.ConsoleInstance) -> None:
    async with opened(instance) as client:
        text = await text_of(client, "/audits/worse/compare")
        assert ">Worse</p>" in text
        assert re.search(r"New findings</dt><dd>.*chatty", text)
        assert re.search(r'<th scope="row" class="mono">2342565</th><td>.*?new</span>', text)
        assert "/v1/audits/comparison?topic=worse&amp;before=2026-01-31T01%3A00" in text
        before, after = quote(audits.made_at(2)), quote(audits.made_at(1))
        text = await text_of(client, f"/audits/worse/compare?before={before}&after={after}")
        assert ">Better</p>" in text
        assert "gone</span>" in text
        text = await text_of(client, f"/audits/worse/compare?before={after}&after={after}")
        assert ">About the same</p>" in text
        assert "has no two such" in await text_of(client, "/audits/worse/compare?after=then", 404)
        assert "This topic has one audit" in await text_of(client, "/audits/new/compare")
        assert "no audit yet" in await text_of(client, "/audits/none/compare", 404)


async def test_an_empty_key_is_no_blank_row() -> None:
    instance = world.empty()
    made = audits.audited("orders", skew_world.uniform, skew_world.empty_keys)
    instance.audited = {"orders": made}
    async with opened(instance) as client:
        for page in ("/audits/orders", "/audits/orders/compare"):
            text = await text_of(client, page)
            assert '<span class="quiet">(the empty key)</span></th>' in text
            assert 'class="mono"></th>' not in text


async def test_many_audits_are_a_quick_page() -> None:
    instance = world.empty()
    instance.audited = audits.many(200)
    size = max(map(len, instance.audited.values()))
    assert size < 200_000
    async with opened(instance) as client:
        await text_of(client, "/audits")  # each document is read once
        began = time.process_time()
        text = await text_of(client, "/audits?sort=change")
        took = time.process_time() - began
    assert len(rows_of(text)) == 50
    assert took < 1.0


async def test_names_are_shown_and_never_run() -> None:
    instance = world.empty()
    name = world.HOSTILE.replace("/", "")
    first, second = skew_world.data_bomb, skew_world.uniform
    document = audits.audited(name, second, first).replace(
        b'"2342565"', orjson.dumps(world.HOSTILE)
    )
    instance.audited = {name: document}
    async with opened(instance) as client:
        for path in ("", "/compare", "?partitions=%3Cscript%3Ealert"):
            text = await text_of(client, f"/audits/{quote(name, safe='')}{path}")
            assert "<script>alert" not in text
            assert "&lt;script&gt;alert" in text
