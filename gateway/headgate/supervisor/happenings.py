"""What the parent does, in the words of the installation log."""

import os
from collections.abc import Sequence

from headgate import __version__
from headgate.config import Settings
from headgate.core.installation import Detail, Happening, Kind
from headgate.core.terminal import counted
from headgate.native.chosen import CODE

_GATEWAY, _CONFIGURATION, _CERTIFICATES = "gateway", "configuration", "certificates"
_MAX_NAMED = 50  # options of a refused file


def started(file: str, workers: int) -> Happening:
    """It begins to serve. file: of its configuration."""
    text = f"headgate {__version__} ({CODE}) with {workers} worker(s), pid {os.getpid()}"
    details = {"version": __version__, "native": CODE, "workers": workers, "file": file}
    return Happening(Kind.STARTED, _GATEWAY, text, details)


def draining(delay_s: float, bound_s: float) -> Happening:
    """It serves for delay_s more, and has ended bound_s from now."""
    text = f"ends within {bound_s:g} s and serves requests for the first {delay_s:g} s"
    return Happening(Kind.DRAINING, _GATEWAY, text, {"delay_s": delay_s, "bound_s": bound_s})


def ended(is_clean: bool) -> Happening:
    """All workers are gone."""
    text = (
        "all workers drained" if is_clean else "some workers did not drain in time and were killed"
    )
    return Happening(Kind.ENDED, _GATEWAY, text, {"clean": is_clean})


def reloaded(file: str, settings: Settings) -> Happening:
    """What the file says is in force."""
    topics, producers = len(settings.topics), len(settings.producers)
    text = f"{file}: {counted(topics, 'topic')}, {counted(producers, 'producer')}"
    return Happening(Kind.RELOADED, _CONFIGURATION, text, {"file": file})


def refused(file: str, why: str, options: Sequence[str]) -> Happening:
    """The file is not taken. options: those that are wrong, or need a restart."""
    details: dict[str, Detail] = {"file": file, "options": [*options[:_MAX_NAMED]]}
    return Happening(Kind.RELOAD_REFUSED, _CONFIGURATION, why, details)


def certificates_reloaded() -> Happening:
    """Those in the files are in force."""
    return Happening(Kind.CERTIFICATES_RELOADED, _CERTIFICATES, "new certificates are active")


def certificates_refused(error: OSError) -> Happening:
    """Those in the files cannot be used."""
    return Happening(
        Kind.CERTIFICATES_REFUSED, _CERTIFICATES, f"the old certificates stay active: {error}"
    )
