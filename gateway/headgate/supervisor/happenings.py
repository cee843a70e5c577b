"""Entries of the installation log about the parent's own actions."""

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
    """Return the entry of the gateway's start.

    Args:
        file: Path of the configuration file.
        workers: Number of workers.
    """
    text = f"headgate {__version__} ({CODE}) with {workers} worker(s), pid {os.getpid()}"
    details = {"version": __version__, "native": CODE, "workers": workers, "file": file}
    return Happening(Kind.STARTED, _GATEWAY, text, details)


def draining(delay_s: float, bound_s: float) -> Happening:
    """Return the entry of the beginning of a drain.

    Args:
        delay_s: Time for which the gateway still serves, in seconds.
        bound_s: Time until its end, in seconds.
    """
    text = f"ends within {bound_s:g} s and serves requests for the first {delay_s:g} s"
    return Happening(Kind.DRAINING, _GATEWAY, text, {"delay_s": delay_s, "bound_s": bound_s})


def ended(is_clean: bool) -> Happening:
    """Return the entry of the gateway's end, after its last worker."""
    text = (
        "all workers drained" if is_clean else "some workers did not drain in time and were killed"
    )
    return Happening(Kind.ENDED, _GATEWAY, text, {"clean": is_clean})


def reloaded(file: str, settings: Settings) -> Happening:
    """Return the entry of an applied reload."""
    topics, producers = len(settings.topics), len(settings.producers)
    text = f"{file}: {counted(topics, 'topic')}, {counted(producers, 'producer')}"
    return Happening(Kind.RELOADED, _CONFIGURATION, text, {"file": file})


def refused(file: str, why: str, options: Sequence[str]) -> Happening:
    """Return the entry of a refused reload.

    Args:
        file: Path of the configuration file.
        why: Reason of the refusal.
        options: Options that are wrong or need a restart.
    """
    details: dict[str, Detail] = {"file": file, "options": [*options[:_MAX_NAMED]]}
    return Happening(Kind.RELOAD_REFUSED, _CONFIGURATION, why, details)


def certificates_reloaded() -> Happening:
    """Return the entry of renewed certificates."""
    return Happening(Kind.CERTIFICATES_RELOADED, _CERTIFICATES, "new certificates are active")


def certificates_refused(error: OSError) -> Happening:
    """Return the entry of certificates that cannot be used."""
    return Happening(
        Kind.CERTIFICATES_REFUSED, _CERTIFICATES, f"the old certificates stay active: {error}"
    )
