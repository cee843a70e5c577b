"""The audit of deploy/kubernetes/spark-audit.yaml: its driver, and executors that are pods.

No cluster: a server takes what the driver asks of Kubernetes, and starts pods as processes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headgate.devstack.child import Child
from support.deploy.deployment import AUDIT, DEPLOY, objects
from support.deploy.pod_server import PodServer, environment_of, pod_server
from support.process.stack import PATIENCE, RunningBroker
from support.root import ROOT
from support.scenarios import skew_world
from support.scenarios.skew_topics import produce_world

pytestmark = [pytest.mark.full, pytest.mark.kafka]

OBJECTS = {one["kind"]: one for one in objects(AUDIT)}
CODE = os.pathsep.join(str(ROOT / one) for one in ("gateway", "spark"))
# What the image has: PATH with its Python; nobody tells Spark where anything is.
IMAGE = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": CODE}
# Smaller than the manifest's, for a machine of two cores.
SMALL = ("executor.instances=2", "executor.cores=1", "executor.memory=512m", "driver.memory=512m",
         "kubernetes.executor.enableApiWatcher=false",  # it has no stream of changes
         "kubernetes.executor.apiPollingInterval=1s")  # fmt: skip


def granted() -> set[tuple[str, str]]:
    return {
        (verb, resource)
        for rule in OBJECTS["Role"]["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def arguments(folder: Path, url: str) -> list[str]:
    """The Job's, where `folder` is all of its volumes."""
    container = OBJECTS["Job"]["spec"]["template"]["spec"]["containers"][0]
    fields = {"POD": "driver", "NAMESPACE": "events", "IP": "127.0.0.1"}
    assert {one["name"] for one in container["env"]} == set(fields)
    given = "\n".join(container["args"])
    for name, value in fields.items():
        given = given.replace(f"$({name})", value)
    for was, now in (
        ("/etc/headgate", str(folder)),
        ("/results", str(folder)),
        ("https://kubernetes.default.svc", url),
    ):
        assert was in given
        given = given.replace(was, now)
    return [*given.split("\n"), *(f"--conf=spark.{one}" for one in SMALL)]


def own(folder: Path, *command: str) -> list[str]:
    """Each pod has a /tmp of its own, and is started there (test_image.py)."""
    return ["sh", "-c", 'cd "$0" && exec "$@"', str(folder), *command]


def finished(driver: Child, pods: PodServer) -> int:
    end = time.monotonic() + 250 * PATIENCE
    while driver.exit_code is None:
        assert time.monotonic() < end, driver.log_tail()
        pods.run()
        time.sleep(0.05)
    return driver.exit_code


def mounts_of(pod: dict[str, Any]) -> list[str]:
    return [one["mountPath"] for one in pod["spec"]["containers"][0]["volumeMounts"]]


def test_executors_are_pods_that_the_role_allows(kafka: RunningBroker, tmp_path: Path) -> None:
    topic = kafka.create_topic("kubernetes-audit", 6)
    produce_world(kafka, topic, skew_world.zipf(6000, partitions=6))
    (tmp_path / "headgate.toml").write_text(
        f'[clusters.main]\nbootstrap_servers = ["{kafka.bootstrap}"]\n[topics."{topic}"]\n'
    )
    (tmp_path / "executor.yaml").write_text(OBJECTS["ConfigMap"]["data"]["executor.yaml"])

    def start(pod: dict[str, Any]) -> Child:
        (container,) = pod["spec"]["containers"]
        assert container["command"] == ["/opt/headgate/spark/executor.sh"]
        executor = str(DEPLOY / "spark" / "executor.sh")
        name = pod["metadata"]["name"]
        environment = {**IMAGE, **environment_of(pod)}
        assert environment["SPARK_LOCAL_DIRS"] == "/tmp"
        folder = tmp_path / f"{name}.tmp"
        folder.mkdir()
        environment["SPARK_LOCAL_DIRS"] = str(folder)
        command = own(folder, "sh", executor, *container["args"])
        return Child(name, command, tmp_path / f"{name}.log", environment=environment)

    with pod_server(granted(), start) as pods:
        pods.objects["pods", "driver"] = {
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "driver", "namespace": "events", "uid": "driver"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }  # fmt: skip
        driver = Child(
            "driver",
            own(tmp_path, sys.executable, "-m", "headgate_spark", *arguments(tmp_path, pods.url)),
            tmp_path / "driver.log",
            environment={**os.environ, "PYTHONPATH": CODE},
        )
        try:
            code = finished(driver, pods)
        finally:
            driver.kill()
        logs = "".join(one.read_text() for one in tmp_path.glob("*exec*.log"))
        assert code == 0, driver.log_tail() + logs[-3000:]
        assert pods.used <= granted()
        assert len(pods.created) >= 2
        for pod in pods.created:
            assert len(set(mounts_of(pod))) == len(mounts_of(pod))  # or the server refuses it
            assert {"/tmp", "/results"} <= set(mounts_of(pod))
            assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        found = json.loads((tmp_path / "audit" / "audit.json").read_text())
        assert found
