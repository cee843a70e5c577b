"""The configuration in force: what the parent accepted, from where each value is, and its copy.

Workers read the copy in the private folder, so that a file that is being edited cannot keep a
worker that died from coming back, and all workers reload the same text.
"""

import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from headgate.admin.installation import Configuration, Found
from headgate.config import Loaded, Settings, keep_schemas, load_with_origins, read_file
from headgate.config.problems import Origins
from headgate.edge.auth import Authenticator
from headgate.wiring.reloading import Reload, prepared


class Sources(NamedTuple):
    """What a configuration is read from.

    file: TOML.  environ: goes over it.  flags: variables that a command line's option has set, by
    name.
    """

    file: Path
    environ: Mapping[str, str]
    flags: Mapping[str, str]


class InForce:
    """folder: private.  text: of the file.  sha256: of that, in hexadecimal.

    Raises ConfigError where the file cannot be used.
    """

    def __init__(self, sources: Sources, folder: Path) -> None:
        self._sources = sources
        self._folder = folder
        self.copy = folder / "headgate.toml"
        text = read_file(sources.file)
        self._accept(text, self._load(text))

    def reread(self, callers: Callable[[Settings], Authenticator]) -> Reload:
        """Put in force what the file says now; for a thread.

        Raises ConfigError, RestartNeededError, and OSError where no copy can be kept: then all
        stays as it is.
        """
        text = read_file(self._sources.file)
        loaded = self._load(text)
        reload = prepared(self.shown.loaded.settings, loaded.settings, callers)
        self._accept(text, loaded)
        return reload

    def findings(self) -> list[Found]:
        """What `headgate check` says of it; for a thread."""
        from headgate.check.local import judge_settings  # who never asks need not have it

        settings, origins = self.shown.loaded
        return [Found(*finding) for finding in judge_settings(settings, origins)]

    def _load(self, text: str) -> Loaded:
        file, environ, flags = self._sources
        settings, origins = load_with_origins(file, environ, text=text)
        named = {option: flags.get(origin, origin) for option, origin in origins.items()}
        return Loaded(settings, Origins(named))

    def _accept(self, text: str, loaded: Loaded) -> None:
        keep_schemas(loaded.settings.topics, self._folder)
        fresh = self._folder / "headgate.toml.new"
        fresh.touch(mode=0o600)
        fresh.write_text(text, encoding="utf-8", newline="")
        fresh.replace(self.copy)
        self.shown = Configuration(str(self._sources.file), loaded, time.time())
        self.text = text
        self.sha256 = sha256(text.encode()).hexdigest()
