"""The effective configuration of `headgate dev`: sample, the user's sections, then addresses."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headgate.config.problems import toml_text
from headgate.model.policy import INTERNAL_PREFIXES
from headgate.model.topics import is_glob

_SAMPLE = Path(__file__).with_name("sample.toml")
_PARTITIONS = {"deals": 12}
_DEFAULT_PARTITIONS = 6

Table = Mapping[str, Any]


class SampleTopic(NamedTuple):
    """A topic to create."""

    name: str
    partitions: int
    configs: Mapping[str, str]


def effective_config(overlay: Table, addresses: Table) -> dict[str, Any]:
    """Lay `overlay` over the sample, and `addresses` over both: children cannot be elsewhere."""
    return merge(merge(tomllib.loads(_SAMPLE.read_text()), overlay), addresses)


def merge(under: Table, over: Table) -> dict[str, Any]:
    """Merge tables section by section; every other value of `over` replaces that of `under`."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        both_tables = isinstance(value, dict) and isinstance(below, dict)
        merged[name] = merge(below, value) if both_tables else value  # type: ignore[arg-type]
    return merged


def topics_to_create(config: Table) -> list[SampleTopic]:
    """Return the topics that the configuration names on the ingest cluster: no globs."""
    return [
        SampleTopic(name, _PARTITIONS.get(name, _DEFAULT_PARTITIONS), _topic_configs(policy))
        for name, policy in config.get("topics", {}).items()
        if not is_glob(name)
        and not name.startswith(INTERNAL_PREFIXES)
        and policy.get("cluster", "main") == "main"
    ]


def _topic_configs(policy: Table) -> dict[str, str]:
    # A state topic needs one record per key, as compaction keeps it.
    return {"cleanup.policy": "compact" if policy.get("kind") == "state" else "delete"}


def to_toml(config: Table) -> str:
    """Write a configuration as TOML, each table under its own heading."""
    return "\n".join(_tables((), config)).lstrip() + "\n"


def _tables(path: tuple[str, ...], table: Table) -> list[str]:
    values = {name: value for name, value in table.items() if not isinstance(value, dict)}
    lines = [f"{_key(name)} = {toml_text(value)}" for name, value in values.items()]
    if path and (lines or not table):
        lines.insert(0, f"\n[{'.'.join(_key(part) for part in path)}]")
    for name, value in table.items():
        if isinstance(value, dict):
            lines += _tables((*path, name), value)
    return lines


def _key(name: str) -> str:
    bare = name.replace("-", "").replace("_", "")
    return name if bare.isalnum() and bare.isascii() else str(toml_text(name))
