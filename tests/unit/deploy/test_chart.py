"""deploy/helm: what becomes of values, and which are refused. Needs helm (`make deploy-tools`)."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from headgate import cli
from headgate.config.settings import NAMED, SECTIONS
from headgate.model.policy import options_of
from support.deploy.deployment import (
    CHART,
    DEPLOY,
    VERSION,
    Pod,
    assert_runs,
    objects,
    pods,
    rendered,
    run,
    tool,
)

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
ALL = tuple(f"{name}.enabled=true" for name in ("coalescer", "mirror", "replay", "blobsGc"))
SPOOL = "gateway.spool.size=10Gi"


def one_of(kind: str, *settings: str, name: str = "") -> dict[str, Any]:
    found = [one for one in objects(rendered(*settings)) if one["kind"] == kind]
    (chosen,) = [one for one in found if one["metadata"]["name"].endswith(name)]
    return chosen


def gateway(*settings: str) -> Pod:
    return next(pod for pod in pods(objects(rendered(*settings))) if pod.name == "headgate")


def workloads(made: str) -> list[Pod]:
    """All pods but that of the check, which has ended before Helm makes them."""
    return [pod for pod in pods(objects(made)) if pod.name != "headgate-check"]


@pytest.mark.parametrize(
    "place",
    [
        (),
        *((name,) for name in ("gateway", "coalescer", "monitor", "mirror", "replay", "blobsGc")),
        ("check",),
        ("ingress",),
        ("httpRoute",),
        ("networkPolicy",),
        ("podMonitor",),
        ("serviceMonitor",),
        ("prometheusRule",),
        ("serviceAccount",),
    ],
)
def test_the_schema_has_every_value_and_no_other(place: tuple[str, ...]) -> None:
    values, schema = VALUES, SCHEMA
    for name in place:
        values, schema = values[name], schema["properties"][name]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {*values, *(() if place else ("global",))}


@pytest.mark.parametrize(
    "wrong",
    [
        "gateway.autoscalin=false",
        "gateway.disruptionBudget.minAvailable=1",  # beside maxUnavailable the server refuses it
        "gateway.disruptionBudget.maxUnavailable=0",  # no node could ever be drained
        "gateway.workers=0",
        "secrets=headgate",
    ],
)
def test_values_that_mean_nothing_are_refused(wrong: str) -> None:
    with pytest.raises(AssertionError, match=wrong.split("=")[0].split(".")[-1]):
        rendered(wrong)


def test_several_workers_cannot_spool() -> None:
    with pytest.raises(AssertionError, match=r"gateway\.workers must be 1"):
        rendered(SPOOL, "gateway.workers=2")


def test_the_config_map_keeps_its_name() -> None:
    """Helm deletes one that has another name now, while the former pods still run.

    Gateways reload topics, and are restarted for the rest.
    """

    def made_of(*settings: str) -> tuple[set[str], dict[str, str]]:
        made = objects(rendered("check.enabled=false,coalescer.enabled=true", *settings))
        maps = {each["metadata"]["name"] for each in made if each["kind"] == "ConfigMap"}
        sums = {pod.name: pod.metadata["annotations"]["checksum/config"] for pod in pods(made)}
        mounted = {
            each["configMap"]["name"]
            for pod in pods(made)
            for each in pod.spec["volumes"]
            if "configMap" in each
        }
        assert mounted == maps
        return maps, sums

    (before, was), (after_topics, topics), (after_config, config) = (
        made_of(*settings) for settings in ((), ("topics=#",), ("config=#",))
    )
    assert before == after_topics == after_config == {"headgate-config"}
    assert was["headgate"] == topics["headgate"] != config["headgate"]
    # Coalescer and monitor read the file when they start: both restart them.
    for name in ("headgate-coalescer", "headgate-monitor"):
        assert len({was[name], topics[name], config[name]}) == 3


@pytest.mark.parametrize(
    ("section", "is_there"),
    [("[spool]", True), ("  [ spool ] # a disk", True), ("# [spool] later", False)],
)
def test_a_section_in_a_comment_is_none(section: str, is_there: bool, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[clusters.main]\nbootstrap_servers = ["kafka:9092"]\n{section}\n')
    command = (tool("helm"), "template", CHART, *VERSION, "--set-file", f"config={file}")
    if is_there:
        with pytest.raises(AssertionError, match=r"set gateway\.spool\.size"):
            run(*command)
    else:
        run(*command)


def set_files(folder: Path, **texts: str) -> list[str | Path]:
    """Options that give the chart each text as a file."""
    options: list[str | Path] = []
    for name, text in texts.items():
        file = folder / name
        file.write_text(text)
        options += ["--set-file", f"{name}={file}"]
    return options


CONFIG = '[clusters.main]\nbootstrap_servers = ["kafka:9092"]\n'


@pytest.mark.parametrize(
    ("config", "topics", "message"),
    [
        ("[clusters.main\n", "", "config is not TOML: toml: line"),
        (
            CONFIG,
            "[topics.orders]\nkey = [",
            "config, followed by topics, is not TOML: toml: line",
        ),
        (CONFIG, CONFIG, "followed by topics, is not TOML: toml: line"),
    ],
    ids=["config", "topics", "a section in both"],
)
def test_text_that_is_not_toml_is_refused(
    config: str, topics: str, message: str, tmp_path: Path
) -> None:
    command = (tool("helm"), "template", CHART, *VERSION)
    run(*command, *set_files(tmp_path, config=CONFIG, topics='[topics.orders]\nkey = ["/id"]\n'))
    with pytest.raises(AssertionError, match=message):
        run(*command, *set_files(tmp_path, config=config, topics=topics))


LITERAL_SECRETS = {
    "clusters.sasl_password": CONFIG + 'sasl_password = "hunter2"\n',
    "clusters.sasl_oauth_client_secret": 'clusters.main = {"sasl_oauth_client_secret" = "x"}\n',
    "tracing.headers": '[tracing]\nheaders = ["authorization=Bearer x"]\n',
    "redis.url": '[redis]\nurl = "redis://:hunter2@redis:6379/0"\n',
    "redis.urls": '[redis]\nurls = ["redis://a:6379", "rediss://user:p/w@b:6379"]\n',
    "a sentinel's": '[redis]\nurl = "redis+sentinel://s:26379/headgate?sentinel_password=x"\n',
}


def test_the_chart_knows_every_secret_option() -> None:
    secrets = {
        f"{section}.{name}"
        for section, settings in (SECTIONS | NAMED).items()
        for name, option in options_of(settings).items()
        if option.about.secret
    }
    assert secrets == {name for name in LITERAL_SECRETS if "." in name}


@pytest.mark.parametrize("text", LITERAL_SECRETS.values(), ids=LITERAL_SECRETS)
def test_a_secret_in_the_configuration_is_refused(text: str, tmp_path: Path) -> None:
    command = (tool("helm"), "template", CHART, *VERSION)
    with pytest.raises(AssertionError, match="/run/secrets/headgate/KEY") as refused:
        run(*command, *set_files(tmp_path, config=text))
    assert "hunter2" not in str(refused.value)
    commented = "".join(f"# {line}\n" for line in text.splitlines())
    run(*command, *set_files(tmp_path, config=commented))


def test_secrets_by_reference_and_urls_without_a_password_are_taken(tmp_path: Path) -> None:
    text = CONFIG + 'sasl_password_file = "/run/secrets/headgate/kafka"\n[redis]\n'
    text += 'url = "redis://redis:6379/0"\n[tracing]\nendpoint = "http://collector:4318"\n'
    run(tool("helm"), "template", CHART, *VERSION, *set_files(tmp_path, config=text))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADGATE_CLUSTERS__MAIN__SASL_PASSWORD", "hunter2"),
        ("HEADGATE_REDIS__URL", "redis://:hunter2@redis:6379"),
    ],
)
def test_a_secret_in_the_environment_comes_from_a_secret(name: str, value: str) -> None:
    given = f"extraEnv[0].name={name}"
    with pytest.raises(AssertionError, match=r"use valueFrom\.secretKeyRef"):
        rendered(given, f"extraEnv[0].value={value}")
    rendered(given, "extraEnv[0].valueFrom.secretKeyRef.name=headgate")
    rendered("extraEnv[0].name=HEADGATE_REDIS__URL,extraEnv[0].value=redis://redis:6379")


def test_the_configuration_is_checked_before_anything_is_changed() -> None:
    """With the files, Secrets, environment and image that the gateways will get."""
    settings = ("secret=headgate,tlsSecret=headgate-tls", "topics=# reloaded")
    config_map = one_of("ConfigMap", *settings, name="-check")
    job = one_of("Job", *settings)
    for hook in (config_map, job):
        annotations = hook["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "pre-install,pre-upgrade"
        assert "hook-failed" not in annotations["helm.sh/hook-delete-policy"]
    assert config_map["data"] == one_of("ConfigMap", *settings, name="-config")["data"]
    made = objects(rendered(*settings))
    check = next(pod for pod in pods(made) if pod.name == "headgate-check")
    serve = next(pod for pod in pods(made) if pod.name == "headgate")
    for part in ("image", "env", "volumeMounts", "securityContext"):
        assert check.main[part] == serve.main[part]
    files = {"name": "config", "configMap": {"name": "headgate-check"}}
    assert check.spec["volumes"] == [files, *serve.spec["volumes"][1:]]
    assert_runs(["headgate", *check.main["args"]])
    assert "--connect" not in check.main["args"]


def test_the_checks_command_passes_the_charts_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its warnings, such as that of missing tokens, do not stop an installation."""
    made = objects(rendered())
    (check,) = [pod for pod in pods(made) if pod.name == "headgate-check"]
    files = one_of("ConfigMap", name="-check")["data"]
    (tmp_path / "headgate.toml").write_text(files["headgate.toml"])
    monkeypatch.setenv("HEADGATE_HTTP__HOST", "0.0.0.0")  # as in the image
    for variable in check.main["env"]:
        monkeypatch.setenv(variable["name"], variable["value"])
    command = [text.replace("/etc/headgate", str(tmp_path)) for text in check.main["args"]]
    assert cli.main(command) == 0


def test_the_check_is_the_operators_choice() -> None:
    assert (
        "--connect"
        in one_of("Job", "check.connect=true")["spec"]["template"]["spec"]["containers"][0]["args"]
    )
    assert not [each for each in objects(rendered("check.enabled=false")) if each["kind"] == "Job"]


def test_the_check_of_an_installation_does_not_need_the_account_that_helm_makes_later() -> None:
    def account(*settings: str) -> str:
        name: str = one_of("Job", *settings)["spec"]["template"]["spec"]["serviceAccountName"]
        return name

    assert account("serviceAccount.create=true") == "default"
    assert account("serviceAccount.name=bucket") == "bucket"


def notes(folder: Path, *settings: str) -> str:
    """Render NOTES.txt through a template, as `helm install` needs a cluster for it."""
    chart = shutil.copytree(CHART, folder / "chart", dirs_exist_ok=True)
    template = '{{ dict "notes" (include "headgate/templates/NOTES.txt" .) | toYaml }}'
    (chart / "templates" / "notes.yaml").write_text(template)
    given = [part for one in settings for part in ("--set", one)]
    show = ("--show-only", "templates/notes.yaml")
    made = run(tool("helm"), "template", "headgate", chart, *VERSION, *show, *given)
    (found,) = objects(made)
    return str(found["notes"])


def test_the_notes_say_what_to_do_next(tmp_path: Path) -> None:
    bare = notes(tmp_path)
    steps = re.findall(r"^(\d)\. (\w+)", bare, re.MULTILINE)
    verbs = ["Wait", "Declare", "Check", "Send", "Open"]
    assert steps == [(str(number), verb) for number, verb in enumerate(verbs, 1)]
    assert len(re.findall("^- ", bare.partition("Before production:")[2], re.MULTILINE)) == 4
    everything = notes(
        tmp_path,
        SPOOL,
        "config=[auth]",
        "topics=[topics.a]",
        "tlsSecret=t,prometheusRule.enabled=true,podMonitor.enabled=true",
    )
    assert "exec statefulset/headgate -- headgate init --config" in everything
    assert "Before production" not in everything
    assert "send each key to one gateway" in everything


def test_gateways_are_spread_over_nodes_and_the_operator_may_choose_otherwise() -> None:
    ours = {"matchLabels": one_of("Service", name="headgate")["spec"]["selector"]}
    (usual,) = gateway().spec["topologySpreadConstraints"]
    wanted = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1}
    assert usual == {**wanted, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": ours}
    place = "gateway.topologySpreadConstraints[0]"
    zone = (
        f"{place}.topologyKey=topology.kubernetes.io/zone,{place}.maxSkew=1",
        f"{place}.whenUnsatisfiable=DoNotSchedule",
    )
    (zoned,) = gateway(*zone).spec["topologySpreadConstraints"]
    assert zoned["labelSelector"] == ours
    assert zoned["topologyKey"] == "topology.kubernetes.io/zone"
    selected = gateway(*zone, f"{place}.labelSelector.matchLabels.team=events")
    (selecting,) = selected.spec["topologySpreadConstraints"]
    assert selecting["labelSelector"] == {"matchLabels": {"team": "events"}}
    assert "topologySpreadConstraints" not in gateway(f"{place[:-3]}=null").spec


COMPONENTS = ("gateway", "coalescer", "monitor", "mirror", "replay", "blobsGc")


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_may_have_a_place_of_its_own(component: str) -> None:
    """The others keep that of all pods."""
    made = rendered(
        *ALL,
        "nodeSelector.pool=any,affinity.nodeAffinity.a=b,tolerations[0].key=any",
        f"{component}.nodeSelector.pool=own,{component}.affinity.podAffinity.c=d",
        f"{component}.tolerations[0].key=own",
    )
    pools = []
    for pod in workloads(made):
        pool = pod.spec["nodeSelector"]["pool"]
        assert pod.spec["tolerations"] == [{"key": pool}]
        assert set(pod.spec["affinity"]) == {"podAffinity" if pool == "own" else "nodeAffinity"}
        pools.append(pool)
    assert sorted(pools) == ["any"] * (len(COMPONENTS) - 1) + ["own"]


def test_a_killed_gateway_has_had_all_the_time_that_was_given() -> None:
    given = ("preStopSeconds=15", "lameDuckSeconds=9", "drainSeconds=60")
    pod = gateway(*(f"gateway.{one}" for one in given))
    assert pod.main["lifecycle"]["preStop"]["sleep"]["seconds"] == 15
    assert pod.spec["terminationGracePeriodSeconds"] > 15 + 9 + 60 + 5
    environ = {one["name"]: one["value"] for one in pod.main["env"]}
    assert environ["HEADGATE_HTTP__SHUTDOWN_DELAY_MS"] == "9000"
    assert environ["HEADGATE_HTTP__DRAIN_TIMEOUT_MS"] == "60000"


def test_a_spool_without_a_disk_is_refused() -> None:
    """Its events were answered 202, and would be gone with the pod."""
    with pytest.raises(AssertionError, match=r"set gateway\.spool\.size"):
        rendered("config=[spool]")
    rendered("config=[spool]", SPOOL)
    rendered("config=[spool]", "extraVolumes[0].name=spool", "extraVolumes[0].emptyDir.medium=")


def test_helm_test_passes_a_policy_that_names_clients() -> None:
    spec = one_of("NetworkPolicy", "networkPolicy.clients[0].namespaceSelector.matchLabels.a=b")[
        "spec"
    ]
    (peers,) = [rule["from"] for rule in spec["ingress"] if rule["ports"] == [{"port": 8080}]]
    names = [peer["podSelector"]["matchLabels"] for peer in peers if "podSelector" in peer]
    assert names == [
        {"app.kubernetes.io/name": "headgate-test", "app.kubernetes.io/instance": "headgate"}
    ]


def test_a_node_can_be_drained_also_while_kafka_is_away() -> None:
    """One gateway may always go, and those that are not ready may go at once."""
    spec = one_of("PodDisruptionBudget")["spec"]
    assert spec["maxUnavailable"] == 1
    assert spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


@pytest.mark.parametrize("name", ["-management", "-monitor"])
def test_people_reach_what_is_not_ready(name: str) -> None:
    assert one_of("Service", name=name)["spec"]["publishNotReadyAddresses"] is True


def test_each_gateway_with_a_disk_has_a_name() -> None:
    spec = one_of("Service", SPOOL, name="-pods")["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    # `management` would be scraped twice: a ServiceMonitor selects by labels and this name.
    assert [port["name"] for port in spec["ports"]] == ["events"]
    named = {one["metadata"]["name"] for one in objects(rendered()) if one["kind"] == "Service"}
    assert not any(name.endswith("-pods") for name in named)


def test_the_data_port_is_that_of_ready_gateways() -> None:
    assert "publishNotReadyAddresses" not in one_of("Service", name="headgate")["spec"]


@pytest.mark.parametrize(
    ("settings", "wanted"), [((), None), ((SPOOL,), "Disabled")], ids=["plain", "spool"]
)
def test_no_disk_with_events_is_left_alone_by_the_autoscaler(
    settings: tuple[str, ...], wanted: str | None
) -> None:
    spec = one_of("HorizontalPodAutoscaler", *settings)["spec"]
    assert spec["behavior"]["scaleDown"].get("selectPolicy") == wanted
    assert spec["scaleTargetRef"]["kind"] == ("StatefulSet" if settings else "Deployment")


def test_network_policy_without_peers_admits_none() -> None:
    """An empty `from` would be everybody."""
    spec = one_of("NetworkPolicy", "networkPolicy.operators=null", "networkPolicy.egress=null")[
        "spec"
    ]
    reached = {port["port"]: rule.get("from") for rule in spec["ingress"] for port in rule["ports"]}
    assert reached.pop(8080) is None
    assert set(reached) == {9096}  # gateways ask the monitor
    assert {port["port"] for rule in spec["egress"] for port in rule["ports"]} == {53, 9096}


def test_the_operator_scrapes_every_program_under_the_names_that_alerts_look_for() -> None:
    made = objects(rendered("podMonitor.enabled=true", *ALL))
    (monitor,) = [one for one in made if one["kind"] == "PodMonitor"]
    labels = monitor["spec"]["selector"]["matchLabels"].items()
    chosen = [pod for pod in pods(made) if labels <= pod.metadata["labels"].items()]
    scraped = {one["port"] for one in monitor["spec"]["podMetricsEndpoints"]}
    without = {
        pod.name
        for pod in chosen
        if not scraped
        & {port["name"] for each in pod.spec["containers"] for port in each.get("ports", ())}
    }
    assert without == {"headgate-blobs-gc", "headgate-check"}  # they end
    installed = {"targetLabel": "installation", "replacement": "headgate"}
    endpoints = monitor["spec"]["podMetricsEndpoints"]
    assert all(one["relabelings"][0] == installed for one in endpoints)
    jobs = {one["port"]: one["relabelings"][-1]["replacement"] for one in endpoints}
    alerts = (DEPLOY / "prometheus" / "alerts.yml").read_text()
    assert {jobs["management"], jobs["monitor"]} == set(re.findall(r'job="([^"]+)"', alerts))


def test_the_service_monitors_scrape_under_the_names_that_alerts_look_for() -> None:
    made = objects(rendered("serviceMonitor.enabled=true"))
    services = [each for each in made if each["kind"] == "Service"]
    jobs = set()
    for monitor in (each for each in made if each["kind"] == "ServiceMonitor"):
        (endpoint,) = monitor["spec"]["endpoints"]
        labels = monitor["spec"]["selector"]["matchLabels"].items()
        selected = [each for each in services if labels <= each["metadata"]["labels"].items()]
        ports = [port["name"] for each in selected for port in each["spec"]["ports"]]
        assert ports.count(endpoint["port"]) == 1
        installed, job = endpoint["relabelings"]
        assert installed == {"targetLabel": "installation", "replacement": "headgate"}
        jobs.add(job["replacement"])
    alerts = (DEPLOY / "prometheus" / "alerts.yml").read_text()
    assert jobs == set(re.findall(r'job="([^"]+)"', alerts))


def test_pods_are_not_scraped_twice() -> None:
    with pytest.raises(AssertionError, match="scrape the same pods twice"):
        rendered("serviceMonitor.enabled=true", "podMonitor.enabled=true")


def test_the_alerts_are_those_of_prometheus_with_links() -> None:
    site = "https://docs.example.com/"
    made = objects(rendered("prometheusRule.enabled=true", f"prometheusRule.runbookUrl={site}"))
    rules = {each["metadata"]["name"]: each for each in made if each["kind"] == "PrometheusRule"}
    for name in ("alerts", "recording"):
        wanted = yaml.safe_load((DEPLOY / "prometheus" / f"{name}.yml").read_text())["groups"]
        for rule in (rule for group in wanted for rule in group["rules"]):
            if "annotations" in rule:
                rule["annotations"]["runbook_url"] = site + rule["annotations"]["runbook_url"]
        assert rules[f"headgate-{name}"]["spec"]["groups"] == wanted


@pytest.mark.parametrize("kind", ["Ingress", "HTTPRoute"])
def test_traffic_from_outside_reaches_the_data_port_alone(kind: str) -> None:
    """Management, with its console, has no way in from outside."""
    made = rendered(
        "ingress.enabled=true,ingress.hosts[0]=events.example.com",
        "httpRoute.enabled=true,httpRoute.parentRefs[0].name=public",
    )
    (found,) = [each for each in objects(made) if each["kind"] == kind]
    (rule,) = found["spec"]["rules"]
    if kind == "Ingress":
        (path,) = rule["http"]["paths"]
        backend = path["backend"]["service"]
        assert backend == {"name": "headgate", "port": {"name": "events"}}
    else:
        (backend,) = rule["backendRefs"]
        assert backend == {"name": "headgate", "port": 80}


def test_a_route_names_its_gateway() -> None:
    with pytest.raises(AssertionError, match=r"httpRoute\.parentRefs must name the Gateway"):
        rendered("httpRoute.enabled=true")


def test_names_labels_and_account_of_the_operator_are_everywhere() -> None:
    own = "fullnameOverride=edge,podLabels.team=events"
    made = objects(rendered(*ALL, own, "serviceAccount.create=true,check.enabled=false"))
    for pod in pods(made):
        assert pod.name.startswith("edge")
        assert pod.metadata["labels"]["team"] == "events"
        assert pod.spec["serviceAccountName"] == "edge"
    accounts = [each["metadata"]["name"] for each in made if each["kind"] == "ServiceAccount"]
    assert accounts == ["edge"]
    for pod in pods(objects(rendered("nameOverride=edge"))):
        assert pod.metadata["labels"]["app.kubernetes.io/name"] == "edge"


def test_a_digest_takes_precedence_over_a_tag() -> None:
    digest = f"sha256:{'a' * 64}"
    assert gateway(f"image.digest={digest},image.tag=v1").main["image"] == f"headgate@{digest}"


def test_helm_test_asks_the_data_port_through_its_service() -> None:
    (pod,) = [each for each in objects(rendered()) if each["kind"] == "Pod"]
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    (container,) = pod["spec"]["containers"]
    assert container["command"][-1] == "http://headgate:80/live"


def test_every_pod_has_what_is_mounted_besides() -> None:
    made = rendered(
        *ALL,
        "extraVolumes[0].name=blobs,extraVolumes[0].emptyDir.medium=Memory",
        "extraVolumeMounts[0].name=blobs,extraVolumeMounts[0].mountPath=/blobs",
    )
    for pod in pods(objects(made)):
        assert "/blobs" in {one["mountPath"] for one in pod.main["volumeMounts"]}, pod.name
        assert "blobs" in {one["name"] for one in pod.spec["volumes"]}, pod.name


def test_a_mirror_takes_the_cores_that_it_is_given() -> None:
    """Spark counts those of the node, and takes memory for each."""
    pods_made = pods(objects(rendered("mirror.enabled=true", "mirror.cores=3")))
    (mirror,) = [pod for pod in pods_made if pod.name.endswith("-mirror")]
    assert "--master=local[3,8]" in mirror.main["args"]
