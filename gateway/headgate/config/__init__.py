"""Configuration: one TOML file, the environment over it, typed settings out of it.

`load(file, environ)` is the way in; see settings.py for what comes out of it.
"""

from headgate.config.backend_settings import RedisSettings
from headgate.config.load import (
    Loaded,
    ReloadChanges,
    keep_schemas,
    load,
    load_with_origins,
    reload_changes,
    reloadable,
)
from headgate.config.problems import ConfigError, Problem
from headgate.config.settings import HttpSettings, Settings
from headgate.config.values import read_file

__all__ = [
    "ConfigError",
    "HttpSettings",
    "Loaded",
    "Problem",
    "RedisSettings",
    "ReloadChanges",
    "Settings",
    "keep_schemas",
    "load",
    "load_with_origins",
    "read_file",
    "reload_changes",
    "reloadable",
]
