"""deploy/kubernetes: what the chart makes of everything fits the programs, and itself."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from headgate.config.load import load
from headgate.config.settings import NAMED, SECTIONS, AdmissionSettings, HttpSettings
from headgate.metrics.catalogue import METRICS, MetricKind
from headgate.model.policy import options_of
from support.deploy.deployment import AUDIT, MANIFESTS, Pod, assert_runs, objects, paths_of, pods

OBJECTS = objects(MANIFESTS)
PODS = [*pods(OBJECTS), *pods(objects(AUDIT))]
OURS = [pod for pod in PODS if pod.name != "executor"]
SECRETS = "/run/secrets/headgate/"


def by_name(pod: Pod) -> str:
    return pod.name


def of_kind(kind: str) -> list[dict[str, Any]]:
    found = [one for one in OBJECTS if one["kind"] == kind]
    assert found, kind
    return found


def config_of(pod: Pod) -> str:
    """The file that the pod mounts."""
    named = [one["configMap"]["name"] for one in pod.spec["volumes"] if "configMap" in one]
    maps = [one for one in [*OBJECTS, *objects(AUDIT)] if one["kind"] == "ConfigMap"]
    text: str = next(one for one in maps if [one["metadata"]["name"]] == named)["data"][
        "headgate.toml"
    ]
    return text


def ports(pod: Pod) -> dict[str, int]:
    found = [port for each in pod.spec["containers"] for port in each.get("ports", [])]
    return {port["name"]: port["containerPort"] for port in found}


def test_every_program_has_a_workload_of_its_own() -> None:
    programs = {"", "-coalescer", "-monitor", "-mirror", "-replay", "-blobs-gc", "-audit"}
    assert {pod.name.removeprefix("headgate") for pod in OURS} == programs


@pytest.mark.parametrize("pod", OURS, ids=by_name)
def test_programs_are_started_with_arguments_that_they_take(pod: Pod) -> None:
    jobs = pod.main["image"].partition(":")[0].endswith("-jobs")
    entry = pod.main.get("command") or ["tini", "--", "headgate-spark" if jobs else "headgate"]
    assert entry[:2] == ["tini", "--"]
    assert_runs([*entry[2:], *pod.main["args"]])


@pytest.mark.parametrize("pod", OURS, ids=by_name)
def test_what_they_mount_and_are_told_can_be_used(pod: Pod, tmp_path: Path) -> None:
    """The file and the environment together, as `headgate check` judges them."""
    secret = tmp_path / "redis-url"
    secret.write_text("redis://redis:6379/0")
    file = tmp_path / "headgate.toml"
    file.write_text(config_of(pod).replace(SECRETS, f"{tmp_path}/"))
    environ = {one["name"]: one.get("value", "") for one in pod.main.get("env", [])}
    for name, value in environ.items():
        if name.endswith("_FILE") and value.startswith("/run/secrets/tls/"):
            (tmp_path / name).touch()
            environ[name] = str(tmp_path / name)
    settings = load(file, environ)
    assert settings.clusters
    mine = ports(pod)
    for name, port in (
        ("events", settings.http.port),
        ("management", settings.http.management_port),
        ("monitor", settings.monitor.port),
    ):
        assert mine.get(name, port) == port


@pytest.mark.parametrize("pod", PODS, ids=by_name)
def test_nobody_is_root_or_can_write_but_to_volumes(pod: Pod) -> None:
    assert pod.spec["securityContext"]["runAsNonRoot"] is True
    assert pod.spec["securityContext"]["runAsUser"] == 65532
    assert pod.spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod.spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    mounts = [one["mountPath"] for one in pod.main["volumeMounts"]]
    assert "/tmp" in mounts
    volumes = {one["name"] for one in pod.spec["volumes"]} | {"disk"}
    assert {
        one["name"] for each in pod.spec["containers"] for one in each["volumeMounts"]
    } <= volumes
    # Only the audit's driver asks Kubernetes for anything.
    assert (pod.spec.get("automountServiceAccountToken") is False) == (pod.name != "headgate-audit")


@pytest.mark.parametrize("pod", [pod for pod in OURS if "ports" in pod.main], ids=by_name)
def test_probes_ask_pages_that_there_are(pod: Pod) -> None:
    known = ports(pod)
    for kind, path in (("readinessProbe", "/ready"), ("livenessProbe", "/live")):
        asked = pod.main[kind]["httpGet"]
        assert asked["path"] == path
        assert path in paths_of(known[asked["port"]])
        # A busy process answers late: Kubernetes' second would take it out of its Service.
        assert pod.main[kind].get("timeoutSeconds", 1) >= 3
        # The coalescer's port is the one without TLS.
        assert asked.get("scheme", "HTTP") == ("HTTP" if "coalescer" in pod.name else "HTTPS")


def test_a_pod_is_out_of_the_service_before_it_drains_and_has_time_for_that() -> None:
    gateway = next(pod for pod in OURS if pod.name == "headgate")
    environ = {one["name"]: one["value"] for one in gateway.main["env"]}
    delay_s = int(environ["HEADGATE_HTTP__SHUTDOWN_DELAY_MS"]) / 1000
    drain_s = int(environ["HEADGATE_HTTP__DRAIN_TIMEOUT_MS"]) / 1000
    probe = gateway.main["readinessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] < delay_s
    assert gateway.spec["terminationGracePeriodSeconds"] > delay_s + drain_s + 5
    # The chart's own are those that the gateway has anyway.
    assert (delay_s, drain_s) == (
        HttpSettings().shutdown_delay_ms / 1000,
        HttpSettings().drain_timeout_ms / 1000,
    )


def test_a_gateway_has_the_memory_that_its_limits_allow_it_to_take() -> None:
    """As docs/operate/sizing.md counts it, with 10,000 connections."""
    admission = AdmissionSettings()
    in_flight = admission.in_flight_max_bytes + 2_000 * admission.in_flight_max_events
    parent, worker, helper, connections = 65_000_000, 105_000_000, 35_000_000, 100_000_000
    gateway = next(pod for pod in OURS if pod.name == "headgate")
    assert gateway.main["args"][-2:] == ["--workers", "1"]
    limit = int(gateway.main["resources"]["limits"]["memory"].removesuffix("Gi")) * 2**30
    assert limit > in_flight + parent + worker + helper + connections


def test_what_programs_need_may_be_reached() -> None:
    """DNS both ways, Kafka, Redis, a bucket, and the monitor."""
    (policy,) = of_kind("NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    allowed = {
        (port["port"], port.get("protocol", "TCP"))
        for rule in policy["spec"]["egress"]
        for port in rule["ports"]
    }
    assert {(53, "UDP"), (53, "TCP")} < allowed
    assert {(port, "TCP") for port in (9092, 9093, 6379, 443, 9096)} < allowed


def test_services_budgets_and_policies_choose_pods_and_ports_that_there_are() -> None:
    labels = {pod.name: pod.metadata["labels"] for pod in pods(OBJECTS)}

    def chosen(selector: dict[str, str]) -> list[Pod]:
        return [pod for pod in pods(OBJECTS) if selector.items() <= labels[pod.name].items()]

    for service in of_kind("Service"):
        (pod,) = chosen(service["spec"]["selector"])
        assert {one["targetPort"] for one in service["spec"]["ports"]} <= ports(pod).keys()
    (budget,) = of_kind("PodDisruptionBudget")
    assert [pod.name for pod in chosen(budget["spec"]["selector"]["matchLabels"])] == ["headgate"]
    (policy,) = of_kind("NetworkPolicy")
    assert len(chosen(policy["spec"]["podSelector"]["matchLabels"])) == len(labels)
    allowed = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
    assert allowed == {port for pod in pods(OBJECTS) for port in ports(pod).values()}
    for workload in [*of_kind("Deployment"), *of_kind("StatefulSet")]:
        template = workload["spec"]["template"]["metadata"]["labels"]
        assert workload["spec"]["selector"]["matchLabels"].items() <= template.items()


def test_gateways_are_scaled_by_processor_and_by_events_in_flight() -> None:
    (scaler,) = of_kind("HorizontalPodAutoscaler")
    by_cpu, by_events = scaler["spec"]["metrics"]
    assert by_cpu["resource"]["name"] == "cpu"
    name = by_events["pods"]["metric"]["name"]
    assert (METRICS[name].kind, METRICS[name].labels) == (MetricKind.SUM, ())
    target = scaler["spec"]["scaleTargetRef"]
    workload = next(
        one for one in of_kind("Deployment") if one["metadata"]["name"] == target["name"]
    )
    assert (target["kind"], workload["spec"].get("replicas")) == ("Deployment", None)
    assert scaler["spec"]["minReplicas"] >= 2


def test_no_secret_is_in_a_config_map() -> None:
    texts = [one["data"]["headgate.toml"] for one in OBJECTS if one["kind"] == "ConfigMap"]
    for section, values in tomllib.loads("\n".join(texts)).items():
        options = options_of((SECTIONS | NAMED)[section])
        given = values.values() if section in NAMED else [values]
        assert not [
            name for one in given for name in one if name in options and options[name].about.secret
        ]
    assert not of_kind("ConfigMap")[0].keys() & {"stringData"}
    assert not [one for one in OBJECTS if one["kind"] == "Secret"]
