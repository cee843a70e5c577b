"""Prepares what brokers need once: jars, the class archive and the bootstrap checkpoint."""

import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from headgate.devstack.broker import (
    STOP_GRACE_S,
    BrokerPlan,
    KafkaInstallation,
    new_id,
    start_node,
    wait_for_node,
)
from headgate.devstack.cache import cache_directory, locked, partial_folder, short_digest
from headgate.devstack.jars import KAFKA, JarsError, ensure_jars
from headgate.devstack.java import find_java, java_identity
from headgate.devstack.ports import LOOPBACK, free_port


def prepare_kafka(environment: Mapping[str, str], say: Callable[[str], None]) -> KafkaInstallation:
    """Return a ready installation, making what is missing (a minute the first time, then 0.2 s).

    Raises JavaMissingError before anything is downloaded, and JarsError.
    """
    java = find_java(environment)
    cache = cache_directory(environment)
    jars = ensure_jars(KAFKA, cache / "jars", java, say)
    # The archive fits one Java build and one class path (the paths are part of it).
    identity = short_digest(java_identity(java) + ":".join(map(str, jars)))
    archive = cache / f"classes-{identity}.jsa"
    bare = KafkaInstallation(java, jars, None, cache / "bootstrap.checkpoint")
    with locked(cache):
        if not bare.bootstrap_checkpoint.exists():
            _make_checkpoint(bare)
        if not archive.exists():
            say("preparing Kafka's class archive (once, makes every later start faster)")
            _make_archive(bare, archive)
    return replace(bare, class_archive=archive)


def _make_checkpoint(bare: KafkaInstallation) -> None:
    goal = bare.bootstrap_checkpoint
    with partial_folder(goal.parent) as temporary:
        settings = temporary / "server.properties"
        settings.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            f"controller.quorum.voters=1@{LOOPBACK}:9093\nlog.dirs={temporary}/data\n"
            f"listeners=PLAINTEXT://{LOOPBACK}:9092,CONTROLLER://{LOOPBACK}:9093\n"
        )
        command = bare.command("kafka.tools.StorageTool")
        command += ["format", "-t", new_id(), "-c", str(settings)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        made = temporary / "data" / goal.name
        if done.returncode != 0 or not made.exists():
            raise JarsError(f"Kafka's StorageTool failed: {done.stdout}{done.stderr}")
        made.rename(goal)


def _make_archive(bare: KafkaInstallation, goal: Path) -> None:
    with partial_folder(goal.parent) as temporary:
        made = temporary / goal.name
        plan = single_node(temporary / "node", free_port())
        child = start_node(bare, plan, f"-XX:ArchiveClassesAtExit={made}")
        try:
            wait_for_node(child, plan)
        finally:
            child.stop(grace_s=4 * STOP_GRACE_S)  # the archive is written during the exit
        if not made.exists():
            raise JarsError(f"Java wrote no class archive\n{child.log_tail()}")
        made.rename(goal)


def single_node(directory: Path, port: int, options: Mapping[str, str] | None = None) -> BrokerPlan:
    """Plan a cluster of one node; data that is already in `directory` keeps its cluster id."""
    controller_port = free_port({port})
    return BrokerPlan(
        directory=directory,
        cluster_id=stored_cluster_id(directory) or new_id(),
        node_id=1,
        port=port,
        controller_port=controller_port,
        voters=f"1@{LOOPBACK}:{controller_port}",
        options=options or {},
    )


def stored_cluster_id(directory: Path) -> str | None:
    """Return the cluster id of the data in a broker's directory, None when it has none yet."""
    meta = directory / "data" / "meta.properties"
    if not meta.exists():
        return None
    pairs = (line.split("=", 1) for line in meta.read_text().splitlines() if "=" in line)
    return dict(pairs).get("cluster.id")
