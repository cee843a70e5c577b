"""`show-topic` names the topics instead of waiting for one that does not exist."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from headgate.devstack.session import write_topic_viewer
from headgate.devstack.stack import DevStack

KAFKA = """#!/usr/bin/env bash
case " $* " in
  *" --list "*) echo "TopicCommand $*" >&2; printf "clicks\\ndeals\\nmade.later\\n" ;;
  *) echo "$@" ;;
esac
"""


@pytest.fixture
def viewer(tmp_path: Path) -> Path:
    (tmp_path / "kafka").write_text(KAFKA)
    (tmp_path / "kafka").chmod(0o755)
    stack = SimpleNamespace(
        state=tmp_path,
        installation=SimpleNamespace(command=lambda name: [str(tmp_path / "kafka"), name]),
        ingest=SimpleNamespace(bootstrap="127.0.0.1:9092"),
        config={"topics": {"deals": {}, "clicks": {}, "orders.*": {}}},
    )
    return write_topic_viewer(cast("DevStack", stack))


def run(viewer: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([viewer, *words], capture_output=True, text=True, timeout=60)


def test_a_configured_topic_is_shown_at_once(viewer: Path) -> None:
    done = run(viewer, "deals", "--max-messages", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("--topic deals --max-messages 1\n")


def test_any_other_topic_of_kafka_is_shown(viewer: Path) -> None:
    done = run(viewer, "made.later")
    assert done.returncode == 0
    assert "--topic made.later" in done.stdout
    assert "TopicCommand --bootstrap-server 127.0.0.1:9092 --list" in done.stderr


@pytest.mark.parametrize("name", ["made_later", "deal", "*", "clicks deals"])
def test_an_unknown_topic_is_answered_with_the_topics(viewer: Path, name: str) -> None:
    done = run(viewer, name)
    assert (done.returncode, done.stdout) == (1, "")
    assert f'there is no topic "{name}". Topics: clicks deals made.later' in done.stderr


def test_without_a_topic_the_usage_is_shown(viewer: Path) -> None:
    done = run(viewer)
    assert done.returncode != 0
    assert "usage: show-topic TOPIC" in done.stderr
