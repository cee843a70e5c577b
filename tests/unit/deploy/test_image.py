"""deploy/image/Dockerfile: who runs in it, what it starts, and what it may copy."""

from __future__ import annotations

import json
import re
import subprocess
from fnmatch import fnmatch
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from headgate.config.settings import HttpSettings
from support.deploy.deployment import (
    AUDIT,
    DOCKERFILE,
    MANIFESTS,
    assert_runs,
    objects,
    paths_of,
    pods,
)
from support.root import ROOT


class Stage(NamedTuple):
    """One FROM. steps: instruction and its text, in order."""

    name: str
    base: str
    steps: list[tuple[str, str]]

    def last(self, instruction: str) -> str | None:
        """What it is set to at the end of this stage, or by the one that it is from."""
        found = [text for name, text in self.steps if name == instruction]
        if found or self.base not in STAGES:
            return found[-1] if found else None
        return STAGES[self.base].last(instruction)


def stages() -> dict[str, Stage]:
    text = "\n".join(
        line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#")
    )
    found: dict[str, Stage] = {}
    for line in re.sub(r"\\\n", " ", text).splitlines():
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            base, name = rest.split(" AS ")
            found[name] = Stage(name, base, [])
        elif instruction and found:
            found[name].steps.append((instruction, rest.strip()))
    return found


STAGES = stages()
FINAL = ("gateway", "jobs")


def test_the_last_stage_is_the_gateway() -> None:
    """`docker build` without a target builds that one."""
    assert list(STAGES)[-1] == "gateway"


@pytest.mark.parametrize("name", FINAL)
def test_nobody_is_root_and_kubernetes_can_see_it(name: str) -> None:
    user = STAGES[name].last("USER")
    assert user == "65532:65532"
    assert {
        f"{pod.spec['securityContext']['runAsUser']}:65532" for pod in pods(objects(MANIFESTS))
    } == {user}


@pytest.mark.parametrize("name", FINAL)
def test_what_is_started_by_itself_is_a_command_with_its_arguments(name: str) -> None:
    entry, command = (STAGES[name].last(one) for one in ("ENTRYPOINT", "CMD"))
    assert entry is not None
    assert command is not None
    tini, dashes, *program = json.loads(entry)
    assert (tini, dashes) == ("tini", "--")
    assert_runs([*program, *json.loads(command)])


def test_spark_runs_where_it_can_write() -> None:
    """Drivers and executors put folders and jars into the one that they are started in."""
    folder = STAGES["jobs"].last("WORKDIR")
    made = [*pods(objects(MANIFESTS)), *pods(objects(AUDIT))]
    spark = [pod for pod in made if re.search("mirror|audit|executor", pod.name)]
    assert len(spark) == 3
    for pod in spark:
        (mount,) = [one for one in pod.main["volumeMounts"] if one["mountPath"] == folder]
        assert {"name": mount["name"], "emptyDir": {}} in pod.spec["volumes"]


def test_ports_are_those_that_it_has_by_itself() -> None:
    http = HttpSettings()
    assert STAGES["gateway"].last("EXPOSE") == f"{http.port} {http.management_port}"
    assert "HEADGATE_HTTP__HOST=0.0.0.0" in str(STAGES["gateway"].last("ENV"))


def test_its_health_is_a_page_of_the_management_port() -> None:
    check = str(STAGES["gateway"].last("HEALTHCHECK"))
    _, _, command = json.loads(check[check.index("[") :])
    url = urlsplit(re.findall(r"http://[^']+", command)[0])
    assert url.port == HttpSettings().management_port
    assert url.path in paths_of(url.port)


@pytest.mark.parametrize("name", FINAL)
def test_what_builds_is_left_behind(name: str) -> None:
    stage: Stage | None = STAGES[name]
    while stage is not None:
        installed = [text for step, text in stage.steps if step == "RUN" and "apt-get" in text]
        assert not re.findall(
            r"\b(gcc|python3-dev|python3-venv|python3-pip)\b", " ".join(installed)
        )
        assert all("rm -rf /var/lib/apt/lists/*" in text for text in installed)
        stage = STAGES.get(stage.base)


def test_all_that_is_installed_is_pinned_by_hashes() -> None:
    commands = [text for stage in STAGES.values() for step, text in stage.steps if step == "RUN"]
    installs = re.findall(r"pip (?:--python \S+ )?(?:install|wheel)[^&]*", " ".join(commands))
    assert installs
    for one in installs:
        assert "--require-hashes" in one or "--no-deps" in one, one


def test_the_context_has_what_is_copied_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    allowed = [rule[1:] for rule in rules if rule.startswith("!")]
    copied = {
        source
        for stage in STAGES.values()
        for step, text in stage.steps
        if step == "COPY" and not text.startswith("--from")
        for source in text.split()[:-1]
    }
    assert all((ROOT / source).exists() for source in copied)
    assert not [one for one in copied if not any(fnmatch(one, rule) for rule in allowed)]
    unused = [rule for rule in allowed if not any(fnmatch(one, rule) for one in copied)]
    assert unused == []


@pytest.mark.parametrize(
    ("base", "warns"),
    [("debian:bookworm-slim", True), (f"debian:bookworm-slim@sha256:{'a' * 64}", False)],
)
def test_a_build_warns_of_a_base_without_a_digest(base: str, warns: bool) -> None:
    (command,) = [text for name, text in STAGES["tools"].steps if name == "RUN" and "$BASE" in text]
    done = subprocess.run(
        ["/bin/sh", "-c", command], env={"BASE": base}, capture_output=True, text=True, check=True
    )
    assert (f"the base image {base} has no digest" in done.stderr) is warns
