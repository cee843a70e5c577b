"""The active configuration: the accepted text, the origin of each value, and a copy.

Workers read the copy in the private folder. So a file that is being edited cannot block the restart
of a worker, and all workers reload the same text.
"""

import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from headgate.admin.installation import Configuration, Found
from headgate.config import Loaded, Settings, keep_schemas, load_with_origins, read_file
from headgate.config.problems import Origins
from headgate.http.auth import Authenticator
from headgate.wiring.reloading import Reload, prepared


class Sources(NamedTuple):
    """The sources of a configuration.

    Args:
        file: The TOML file.
        environ: Variables that override the file.
        flags: Names of command-line options by the variable that each one sets.
    """

    file: Path
    environ: Mapping[str, str]
    flags: Mapping[str, str]


class InForce:
    """The configuration that the parent has accepted.

    Raises ConfigError if the file cannot be used.

    Args:
        sources: The sources of the configuration.
        folder: The private folder for the copy.

    Attributes:
        text: Text of the file.
        sha256: SHA-256 of the text, in hexadecimal.
    """

    def __init__(self, sources: Sources, folder: Path) -> None:
        self._sources = sources
        self._folder = folder
        self.copy = folder / "headgate.toml"
        text = read_file(sources.file)
        self._accept(text, self._load(text))

    def reread(self, callers: Callable[[Settings], Authenticator]) -> Reload:
        """Read the file again and activate it; for a thread.

        Raises:
            ConfigError: The file cannot be used. The old configuration stays active.
            RestartNeededError: An option needs a restart. The old configuration stays active.
            OSError: No copy can be written. The old configuration stays active.
        """
        text = read_file(self._sources.file)
        loaded = self._load(text)
        reload = prepared(self.shown.loaded.settings, loaded.settings, callers)
        self._accept(text, loaded)
        return reload

    def findings(self) -> list[Found]:
        """Return the findings of `headgate check` about it; for a thread."""
        from headgate.check.local import judge_settings  # imported only on demand

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
