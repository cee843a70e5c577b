"""What the tools of others say of deploy/; `make deploy-tools` gets them, or a test is skipped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.deploy.deployment import (
    AUDIT,
    CHART,
    DEPLOY,
    DOCKERFILE,
    MANIFESTS,
    UNITS,
    VERSION,
    rendered,
    run,
    tool,
)

VALUES = DEPLOY / "kubernetes" / "values.yaml"
# Values of the chart that make something else of it than those of the manifests.
VARIANTS = {
    "by itself": (),
    "least": (
        "monitor.enabled=false",
        "networkPolicy.enabled=false",
        "gateway.autoscaling.enabled=false",
    ),
    "with disks": ("gateway.spool.size=10Gi", "gateway.spool.storageClass=fast"),
    "without a check": ("check.enabled=false",),
    "without any disk": ("monitor.storage.size=",),
    "nobody": ("networkPolicy.operators=null", "networkPolicy.egress=null"),
    "more": (
        "gateway.preStopSeconds=10",
        "gateway.service.type=LoadBalancer",
        "mirror.enabled=true,mirror.cluster=main",
        "podAnnotations.team=events",
        "imagePullSecrets[0].name=registry",
        "extraEnv[0].name=AWS_REGION,extraEnv[0].value=eu-central-1",
        "extraVolumes[0].name=blobs,extraVolumes[0].persistentVolumeClaim.claimName=blobs",
        "extraVolumeMounts[0].name=blobs,extraVolumeMounts[0].mountPath=/blobs",
        "priorityClassName=high,affinity.nodeAffinity=null",
        "schemas.orders\\.json=true",
    ),
    "of the operator's own": (
        "fullnameOverride=edge",
        "podLabels.team=events",
        "serviceAccount.create=true",
        "serviceAccount.annotations.role=bucket",
        "ingress.enabled=true",
        "ingress.className=nginx",
        "ingress.hosts[0]=events.example.com",
        "ingress.tls[0].secretName=edge",
    ),
}
SCHEMAS = ("1.30.0", "1.37.0")  # .ci/kubernetes_schemas.py


@pytest.fixture
def schemas() -> Path:
    """Folders of kubeconform's schemas."""
    folder = tool("kubeconform").parent.parent / "schemas"
    if not folder.is_dir():
        pytest.skip("no schemas of Kubernetes: `make deploy-tools` gets them")
    return folder


def assert_valid(file: Path, schemas: Path) -> None:
    for version in SCHEMAS:
        where = f"{schemas}/{version}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
        options = ["-strict", "-kubernetes-version", version, "-schema-location", where]
        run(tool("kubeconform"), *options, file)


def test_the_dockerfile() -> None:
    assert run(tool("hadolint"), "--failure-threshold", "style", DOCKERFILE) == ""


@pytest.mark.parametrize("values", [[], ["--values", VALUES]], ids=["by itself", "all of it"])
def test_the_chart(values: list[str | Path]) -> None:
    said = run(tool("helm"), "lint", "--strict", CHART, *VERSION, *values)
    assert "[WARNING]" not in said


def test_the_manifests_are_what_the_chart_makes() -> None:
    """Behind a head, and without the labels that are only true of what Helm manages."""
    made = run(
        tool("helm"), "template", "headgate", CHART, *VERSION, "--no-hooks", "--values", VALUES
    )
    of_helm = ("app.kubernetes.io/managed-by: Helm", "helm.sh/chart: ")
    lines = [line for line in made.splitlines() if not line.strip().startswith(of_helm)]
    wanted = (DEPLOY / "kubernetes" / "head.txt").read_text() + "\n".join(lines) + "\n"
    assert wanted == MANIFESTS.read_text(), "run `make manifests`"


@pytest.mark.parametrize("version", SCHEMAS)
def test_the_manifests(version: str) -> None:
    """By what needs no Go; kubeconform is for what helm makes."""
    number = version.rpartition(".")[0]
    validate = tool("kubernetes-validate")
    said = run(validate, "--strict", "--quiet", "-k", number, MANIFESTS, AUDIT)
    assert said == ""


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)
def test_what_else_the_chart_makes(
    settings: tuple[str, ...], schemas: Path, tmp_path: Path
) -> None:
    made = tmp_path / "made.yaml"
    made.write_text(rendered(*settings))
    assert_valid(made, schemas)


def test_the_units(tmp_path: Path) -> None:
    """In a root of their own, with programs where the units expect them."""
    verify = tool("systemd-analyze")
    units = tmp_path / "etc" / "systemd" / "system"
    shutil.copytree(UNITS, units, symlinks=True)
    for name in (
        "opt/headgate/.venv/bin/headgate",
        "opt/headgate/.venv/bin/headgate-spark",
        "bin/kill",
    ):
        program = tmp_path / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    for name in ("multi-user", "timers", "network-online", "sysinit", "basic", "shutdown"):
        (units / f"{name}.target").write_text("[Unit]\n")
    names = [file.name for file in sorted(UNITS.glob("headgate*.*")) if file.is_file()]
    assert len(names) == 7
    said = run(verify, "verify", f"--root={tmp_path}", "--man=no", *names)
    assert said == ""


@pytest.mark.parametrize("file", sorted(UNITS.glob("*.service")), ids=lambda file: file.stem)
def test_the_restraints_of_the_units(file: Path) -> None:
    """From 0, nothing is allowed, to 10: what is left is the network, and Java's compiler."""
    said = run(
        tool("systemd-analyze"),
        "security",
        "--offline=yes",
        "--threshold=20",
        file.name,
        SYSTEMD_UNIT_PATH=f"{UNITS}:",
    )
    assert "Overall exposure level" in said


def test_the_stack() -> None:
    run(tool("compose-spec"), DEPLOY / "compose" / "compose.yml")
