"""The sections, and how options are named in errors and origins."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from headgate.config.auth_settings import AuthSettings
from headgate.config.backend_settings import (
    BlobSettings,
    ClusterSettings,
    RedisSettings,
    SpoolSettings,
)
from headgate.config.console_settings import ConsoleSettings
from headgate.config.monitor_settings import MonitorSettings
from headgate.config.replay_settings import ReplaySettings
from headgate.config.settings import (
    AdmissionSettings,
    CoalescerSettings,
    HttpSettings,
    LogSettings,
    ProducerSettings,
)
from headgate.config.tracing_settings import TracingSettings
from headgate.core.topics.policy import TopicPolicy

SECTIONS: Mapping[str, type[Any]] = {
    "http": HttpSettings,
    "admission": AdmissionSettings,
    "redis": RedisSettings,
    "blobs": BlobSettings,
    "spool": SpoolSettings,
    "auth": AuthSettings,
    "coalescer": CoalescerSettings,
    "monitor": MonitorSettings,
    "replays": ReplaySettings,
    "console": ConsoleSettings,
    "logs": LogSettings,
    "tracing": TracingSettings,
}
NAMED: Mapping[str, type[Any]] = {
    "clusters": ClusterSettings,
    "producers": ProducerSettings,
    "topics": TopicPolicy,
}


def dotted(path: Iterable[str]) -> str:
    """The option's name as TOML has it: `topics."orders.*".key`."""
    return ".".join(part if re.fullmatch(r"[\w\-]+", part) else f'"{part}"' for part in path)
