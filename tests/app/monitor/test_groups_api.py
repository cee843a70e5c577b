"""The gateway's /v1/groups: what the monitor says, for whoever may view."""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, ClientTimeout
from aiohttp.test_utils import TestClient, TestServer
from markupsafe import escape

from headgate.admin.app import management_app
from headgate.admin.instance import Monitored
from headgate.commands import top
from headgate.config.settings import AuthSettings, HttpSettings, MonitorSettings, Settings
from headgate.model.outcome import Failure, Reason
from headgate.redis.pauses import ALL, Intent, Kept
from headgate.supervisor import upstreams
from headgate.supervisor.active_config import expires_at
from headgate.supervisor.monitor_process import MonitorPages
from headgate.supervisor.upstreams import MonitorClient, monitor_url
from support.console.world import small
from support.gateway.admin_world import TOKENS, TOPICS, FakeInstance, KeptInMemory, admin_of
from support.identity.authority import Authority
from support.process.stack import free_port
from support.scenarios.group_world import GROUP, START_MS, TOPIC, World
from support.scenarios.monitored import monitor_of


async def test_the_monitor_s_answer_is_passed_on() -> None:
    app = management_app(admin_of(FakeInstance(Settings(topics=TOPICS))))
    async with TestClient(TestServer(app)) as client:
        answer = await client.get("/v1/groups/billing%2Fa?pretty")
        assert (answer.status, answer.content_type) == (200, "application/json")
        assert await answer.text() == "/v1/groups/billing%2Fa?pretty"


async def test_the_groups_of_a_partition_say_where_they_are_there() -> None:
    scripted = World(partitions=2)
    scripted.member("c1", 0)
    scripted.produce(7)
    scripted.commit(4)
    scripted.poll()
    settings = Settings(monitor=MonitorSettings(port=free_port()))
    pages = MonitorPages(monitor_of(scripted), settings)
    await pages.start()
    try:
        async with ClientSession(monitor_url(settings)) as client:

            async def ask(query: str, status: int = 200) -> Any:
                async with client.get(f"/v1/groups?{query}") as answer:
                    assert answer.status == status, query
                    return await answer.json()

            (row,) = (await ask(f"topic={TOPIC}&partition=0"))["groups"]
            here = row["partition"]
            assert (row["group"], here["committed"], here["end"], here["lag"]) == (GROUP, 4, 7, 3)
            assert here["owner"] == "c1-app at /10.0.0.1 (c1)"
            (row,) = (await ask(f"topic={TOPIC}"))["groups"]
            assert "partition" not in row
            for nobody in ("topic=other", f"topic={TOPIC}&partition=1"):
                assert (await ask(nobody))["groups"] == []
            for wrong in ("partition=0", f"topic={TOPIC}&partition=x", f"topic={TOPIC}&partition="):
                assert (await ask(wrong, 400))["reason"] == "malformed"
            assert 'Did you mean "topic"?' in (await ask("topik=a", 400))["detail"]
    finally:
        await pages.close()


async def test_only_viewers_may_see_groups() -> None:
    settings = Settings(auth=AuthSettings(mode=("token",)), producers=TOKENS, topics=TOPICS)
    async with TestClient(TestServer(management_app(admin_of(FakeInstance(settings))))) as client:
        for name, status in (("shop", 403), ("viewer", 200)):
            headers = {"Authorization": f"Bearer {name}-token"}
            assert (await client.get("/v1/groups", headers=headers)).status == status
        assert (await client.get("/v1/groups")).status == 401


async def test_without_a_monitor_it_says_what_to_start() -> None:
    settings = Settings(monitor=MonitorSettings(port=free_port()))
    found = await MonitorClient(lambda: settings).ask("/v1/groups", None)
    assert isinstance(found, Failure)
    assert found.reason is Reason.MONITOR_UNAVAILABLE
    assert "headgate monitor" in found.detail
    assert "monitor.url" in found.detail


async def test_a_monitor_that_hangs_is_named_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """`headgate top` gives up after 10 s, and would blame the gateway."""
    assert upstreams._MONITOR_TIMEOUT.sock_read == 3
    assert (upstreams._MONITOR_TIMEOUT.total or 60) < top._ANSWER_S
    short = ClientTimeout(sock_connect=5, sock_read=0.1)
    monkeypatch.setattr(upstreams, "_MONITOR_TIMEOUT", short)
    with socket.create_server(("127.0.0.1", 0)) as hung:  # the kernel accepts, no program answers
        settings = Settings(monitor=MonitorSettings(port=hung.getsockname()[1]))
        failure = await MonitorClient(lambda: settings).ask("/v1/groups", None)
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.MONITOR_UNAVAILABLE
    assert failure.detail.startswith("the monitor did not answer in time")


async def test_a_monitor_whose_certificate_is_not_trusted(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    pair = Authority(tmp_path).issue("monitor")
    http = HttpSettings(tls_cert_file=str(pair.certificate), tls_key_file=str(pair.key))
    settings = Settings(http=http, monitor=MonitorSettings(port=free_port()))
    scripted = World()
    scripted.poll()
    pages = MonitorPages(monitor_of(scripted), settings)
    await pages.start()
    try:
        failure = await MonitorClient(lambda: settings).ask("/v1/groups", None)
    finally:
        await pages.close()
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.MONITOR_UNAVAILABLE
    assert "certificate is not trusted: unable to get local issuer certificate" in failure.detail
    assert "SSL_CERT_FILE" in failure.detail
    assert "start `headgate monitor`" not in failure.detail
    (line,) = [record for record in caplog.records if record.name == "headgate.supervisor"]
    assert "its certificate is not trusted" in line.message


async def test_the_monitor_shows_the_expiry_of_its_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("monitor")
    http = HttpSettings(tls_cert_file=str(pair.certificate), tls_key_file=str(pair.key))
    settings = Settings(http=http, monitor=MonitorSettings(port=free_port()))
    scripted = World()
    scripted.poll()
    pages = MonitorPages(monitor_of(scripted), settings)
    await pages.start()
    try:
        context = ssl.create_default_context(cafile=str(authority.file))
        url = f"{monitor_url(settings)}/metrics"
        async with ClientSession() as client, client.get(url, ssl=context) as answer:
            figures = await answer.text()
    finally:
        await pages.close()
    expiry = expires_at(pair.certificate.read_bytes())
    assert expiry is not None
    (line,) = re.findall(
        r"(?m)^headgate_certificate_expiry_timestamp_seconds(?:\{\})? (.*)$", figures
    )
    assert float(line) == expiry


async def test_that_no_monitor_answers_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """Every live page of groups or of a partition asks again and again."""
    caplog.set_level(logging.INFO, "headgate.supervisor")
    settings, scripted = Settings(monitor=MonitorSettings(port=free_port())), World()
    scripted.poll()
    client = MonitorClient(lambda: settings, iter((10.0, 17.5)).__next__)
    for _ in range(3):
        assert isinstance(await client.ask("/v1/groups", None), Failure)
    pages = MonitorPages(monitor_of(scripted), settings)
    await pages.start()
    try:
        for _ in range(2):
            assert isinstance(await client.ask("/v1/groups", None), Monitored)
    finally:
        await pages.close()
    gone, back = caplog.records
    assert gone.message.startswith(f"no monitor answers at {monitor_url(settings)}")
    assert back.message == f"monitor at {monitor_url(settings)} answers"
    assert vars(back)["away_s"] == 7.5


@pytest.mark.parametrize(
    ("http", "monitor", "url"),
    [
        (HttpSettings(), MonitorSettings(), "http://127.0.0.1:9096"),
        (HttpSettings(host="0.0.0.0"), MonitorSettings(port=7), "http://127.0.0.1:7"),
        (HttpSettings(tls_cert_file="x"), MonitorSettings(), "https://127.0.0.1:9096"),
        (HttpSettings(), MonitorSettings(url="http://m:1/"), "http://m:1"),
    ],
)
def test_where_the_monitor_is(http: HttpSettings, monitor: MonitorSettings, url: str) -> None:
    assert monitor_url(Settings(http=http, monitor=monitor)) == url


# Kafka takes any text as the name of a group.
NAMES = (
    "a/b", "/a", "a/", "a//b", "50%", "%2F", "%252F", ".", "..", "~..", "~~.", "...", "a/../b",
    "a b", " ", "?x#y", "a+b", "a;b", "ünï→", "<b>&amp;",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
async def test_a_group_with_any_name_has_a_page(name: str) -> None:
    """From the console's link over the gateway to the monitor and back."""
    scripted = World()
    scripted.member("c1", 0)
    scripted.produce(7)
    scripted.commit(4)
    scripted.poll()
    poller = monitor_of(scripted)
    (cluster,) = poller.clusters
    watch = cluster.watch.groups[name] = cluster.watch.groups.pop(GROUP)
    cluster.judged[name], watch.name = cluster.judged.pop(GROUP), name
    settings = Settings(monitor=MonitorSettings(port=free_port()), topics=TOPICS)
    instance = await small()
    instance.settings = settings
    instance.monitored = MonitorClient(lambda: settings).ask  # type: ignore[method-assign]
    pages, app = MonitorPages(poller, settings), management_app(admin_of(instance, KeptInMemory()))
    await pages.start()
    try:
        async with TestClient(TestServer(app)) as client:
            listed = await (await client.get("/console/groups")).text()
            (link,) = re.findall(r'<th scope="row"><a href="(/console/groups/[^"]*)"', listed)
            # A browser resolves the link; this client does the same.
            answer = await client.get(link)
            text = await answer.text()
            assert (answer.status, "On main" in text) == (200, True)
            assert f"<h1>{escape(name)} <a" in text
            page = await (await client.get(link.replace("/console/", "/v1/"))).json()
            assert (page["group"], page["on"][0]["lag"]) == (name, 3)
            pause = link.replace("/console/groups/", "/v1/pauses/")
            body = {"scope": "all", "reason": "deploy"}
            assert (await (await client.put(pause, json=body)).json())["group"] == name
    finally:
        await pages.close()


async def test_a_group_s_page_begins_with_its_diagnosis() -> None:
    scripted = World()
    scripted.member("c1", 0)
    scripted.produce(7)
    scripted.commit(4)
    scripted.polls(12)
    poller = monitor_of(scripted)
    kept = [Kept(Intent(ALL, "deploy"), "till", START_MS)]

    async def pauses(groups: Sequence[str]) -> list[list[Kept]]:
        return [kept if group == GROUP else [] for group in groups]

    poller._pauses = pauses
    (cluster,) = poller.clusters
    watch = cluster.watch.groups[GROUP]
    (member,) = watch.described.members
    settings = Settings(monitor=MonitorSettings(port=free_port()))
    pages = MonitorPages(poller, settings)
    await pages.start()
    try:
        async with ClientSession(monitor_url(settings)) as client:
            for reads, paused in ((True, None), (False, "not obeyed: 1 member does not use")):
                members = (member._replace(reads_pauses=reads),)
                watch.described = watch.described._replace(members=members)
                async with client.get("/v1/groups") as answer:
                    (row,) = (await answer.json())["groups"]
                assert row["paused"]
                assert (row["not_obeyed"] or "").startswith(paused or "")
                assert (row["not_obeyed"] is None) == reads
                async with client.get(f"/v1/groups/{GROUP}") as answer:
                    (page,) = (await answer.json())["on"]
                said = page["diagnosis"]
                assert said["sentence"].startswith("The group is paused (all: deploy, by till)")
                assert ("which is not obeyed" in said["sentence"]) is not reads
                assert said["causes"]
                assert said["next"]
                assert [point["lag"] for point in page["lag_over_time"]] == [3] * 12
    finally:
        await pages.close()
