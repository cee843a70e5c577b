"""Whether a Redis suits the suppression state: nothing in it may come back from the past."""

from collections.abc import Iterator, Mapping
from typing import Any

from headgate.check.finding import Finding, error, warn

_SUBJECT = "redis"
_NEARLY_FULL = 0.9


def judge_redis(
    info: Mapping[str, Any], config: Mapping[str, str] | None, subject: str = _SUBJECT
) -> Iterator[Finding]:
    """info: the answer of INFO.  config: of CONFIG GET, None where that is forbidden.
    subject: which of several it is."""
    found = (*_eviction(info, config), *_memory(info), *_persistence(info, config), *_kind(info))
    for one in found:
        yield one._replace(subject=subject)


def judge_runs(runs: Mapping[str, str | None]) -> Iterator[Finding]:
    """Two names for one server. runs: the id of each one's process, None where it is not known."""
    names: dict[str, str] = {}
    for name, run_id in runs.items():
        other = names.setdefault(run_id, name) if run_id is not None else name
        if other != name:
            text = f"the same server as {other}: databases of one server share its processor"
            yield warn(name, text, "Name each server once in redis.urls.")


def _kind(info: Mapping[str, Any]) -> Iterator[Finding]:
    if info.get("role") not in (None, "master"):
        yield error(_SUBJECT, f"it is a {info['role']}: no writes", "Name the master in redis.url.")
    if str(info.get("cluster_enabled", "0")) == "1":
        text = "Redis Cluster: scripts with keys of several slots are refused"
        yield error(_SUBJECT, text, "Use a single Redis (with a replica, if you like).")


def _eviction(info: Mapping[str, Any], config: Mapping[str, str] | None) -> Iterator[Finding]:
    policy = (config or {}).get("maxmemory-policy") or info.get("maxmemory_policy")
    if policy is None:
        yield warn(_SUBJECT, "maxmemory-policy cannot be read", "Make sure it is noeviction.")
    elif policy != "noeviction":
        text = f"maxmemory-policy {policy}: Redis may evict the state of publishes in progress"
        yield warn(_SUBJECT, text, "Set maxmemory-policy noeviction.")


def _memory(info: Mapping[str, Any]) -> Iterator[Finding]:
    used, maximum = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if not maximum or used < maximum * _NEARLY_FULL or info.get("maxmemory_policy") != "noeviction":
        return
    figures = f"{used} bytes are used of maxmemory {maximum}, with noeviction"
    fix = "Raise maxmemory."
    if used < maximum:
        yield warn(_SUBJECT, f"memory is nearly full: {figures}", fix)
    else:
        text = (
            f"memory is full: {figures}. Nothing is suppressed of keys that are not known yet, "
            "and requests are not remembered"
        )
        yield error(_SUBJECT, text, fix)


def _persistence(info: Mapping[str, Any], config: Mapping[str, str] | None) -> Iterator[Finding]:
    if str(info.get("aof_enabled", "0")) == "1":
        text = "appendonly is on: it costs disk writes, and a restart brings old states back"
        yield warn(_SUBJECT, text, "Set appendonly no; nothing in it is worth keeping.")
    if config is None:
        text = "the snapshot rule (save) cannot be read: CONFIG is forbidden"
        yield warn(_SUBJECT, text, 'Make sure that it is off: save "".')
    elif config.get("save"):
        text = f'snapshots are on (save "{config["save"]}"): a restart brings old states back'
        yield warn(_SUBJECT, text, 'Set save ""; nothing in it is worth keeping.')
