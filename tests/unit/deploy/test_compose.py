"""deploy/compose: the stack's files fit each other, the image and the programs."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from headgate.config.load import load
from support.deploy.deployment import DEPLOY, assert_runs, paths_of

FOLDER = DEPLOY / "compose"
STACK: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yml").read_text())
SERVICES: dict[str, Any] = STACK["services"]
SETTINGS = load(FOLDER / "etc" / "headgate.toml", {})
OURS = ("gateway", "monitor")


def test_it_has_what_the_gateway_needs_and_what_shows_it() -> None:
    assert set(SERVICES) == {*OURS, "kafka", "topics", "redis", "prometheus", "grafana"}


@pytest.mark.parametrize("name", SERVICES)
def test_what_it_mounts_is_there(name: str) -> None:
    for mount in SERVICES[name].get("volumes", []):
        source = mount.split(":")[0]
        assert (FOLDER / source).exists() if source.startswith(".") else source in STACK["volumes"]


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_on_loopback_and_images_have_versions(name: str) -> None:
    service = SERVICES[name]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
    assert name in OURS or re.search(r":v?\d+\.\d+", service["image"])


@pytest.mark.parametrize("name", OURS)
def test_ours_write_to_volumes_alone_and_are_asked_for_pages_that_there_are(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["tmpfs"] == ["/tmp"]
    assert service["cap_drop"] == ["ALL"]
    assert_runs(["headgate", *service.get("command", ["serve", "--config", "F"])])
    command = service["healthcheck"]["test"][-1]
    url = urlsplit(re.findall(r"http://[^']+", command)[0])
    assert url.port is not None
    assert url.path in paths_of(url.port)


def test_addresses_are_those_of_services() -> None:
    found = [
        *SETTINGS.clusters["main"].bootstrap_servers,
        *(urlsplit(str(url)).netloc for url in (SETTINGS.redis.url, SETTINGS.monitor.url)),
        *(
            target
            for job in scraped()
            for each in job["static_configs"]
            for target in each["targets"]
        ),
    ]
    assert {address.partition(":")[0] for address in found} <= set(SERVICES)


def scraped() -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = yaml.safe_load((FOLDER / "prometheus.yml").read_text())[
        "scrape_configs"
    ]
    return jobs


def test_scrapes_are_named_as_alerts_expect_and_lead_to_the_metrics() -> None:
    ports = {
        job["job_name"]: job["static_configs"][0]["targets"][0].split(":")[1] for job in scraped()
    }
    assert ports == {
        "headgate": str(SETTINGS.http.management_port),
        "headgate-monitor": str(SETTINGS.monitor.port),
    }


@pytest.mark.parametrize("name", SERVICES)
def test_it_waits_for_what_it_needs_and_says_when_it_is_there(name: str) -> None:
    """`--wait` is over when all that stays is healthy; the topics' service ends."""
    service = SERVICES[name]
    assert ("healthcheck" in service) == (name != "topics")
    for needed, condition in service.get("depends_on", {}).items():
        if (name, needed) != ("monitor", "gateway"):  # whose image it is
            wanted = "service_completed_successfully" if needed == "topics" else "service_healthy"
            assert condition == {"condition": wanted}


def test_kafka_writes_to_its_volume() -> None:
    """By itself it would write to /tmp."""
    kafka = SERVICES["kafka"]
    (mount,) = kafka["volumes"]
    assert kafka["environment"]["KAFKA_LOG_DIRS"] == mount.partition(":")[2]


def test_topics_that_the_file_names_are_created() -> None:
    command = SERVICES["topics"]["command"]
    created = {one.partition("=")[2] for one in command if one.startswith("--topic=")}
    assert {policy.pattern for policy in SETTINGS.topics} == created


def test_a_stopping_gateway_has_time_to_drain() -> None:
    http = SETTINGS.http
    needed_ms = http.shutdown_delay_ms + http.drain_timeout_ms + 5_000
    assert int(SERVICES["gateway"]["stop_grace_period"].rstrip("s")) * 1000 > needed_ms
