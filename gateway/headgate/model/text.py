# Not compiled: no event passes it.
"""Text for people: control characters, counts, secrets and misspelled names."""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote_plus

# C0 without tab and newline, DEL, C1, line ends, and characters that change the text direction.
_ACTED_ON = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


_FURTHER_LINE = re.compile(r"\n(?=[^ \n])")


def escaped(text: str) -> str:
    r"""Replace the control characters of an output by escapes such as `\u001b`, which JSON reads.

    Newlines and tabs stay, because the output needs them.
    """
    if text.isprintable():
        return text
    return _ACTED_ON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def one_line(text: str) -> str:
    r"""Return the escaped text as a single line; a newline becomes `\n`."""
    return escaped(text).replace("\n", "\\n")


def indented(text: str) -> str:
    """Return the escaped text with all lines after the first one indented."""
    return _FURTHER_LINE.sub("\n  ", escaped(text))


def counted(number: int, name: str, many: str = "") -> str:
    """Format a count and its noun: `1 record`, `1,234 records`.

    Args:
        number: The count.
        name: The noun in the singular.
        many: The plural, if it is irregular.
    """
    return f"{number:,} {name if number == 1 else many or name + 's'}"


def natural_number(text: str, max_digits: int) -> int | None:
    """Return a number that is written in ASCII digits only; None for any other text."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= max_digits
    return int(text) if is_number else None


# ---- names in paths

_DOTS = re.compile(r"~*\.\.?")


def path_segment(name: str) -> str:
    """Encode any name as one segment of a URL's path.

    Clients resolve `.` and `..` even if they are encoded, so such a name gets a `~` in front.
    """
    return quote(f"~{name}" if _DOTS.fullmatch(name) else name, safe="")


def segment_name(segment: str) -> str:
    """Return the name of a decoded path segment (inverse of `path_segment`)."""
    return segment[1:] if segment[:1] == "~" and _DOTS.fullmatch(segment) else segment


# ---- masks for secrets, also for secrets inside URLs


STARS = "***"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# Greedy up to the last @, because an unencoded password may contain @ and /.
_PASSWORD = re.compile(r"://([^:/?#@]*):(.*)@", re.DOTALL)
_USER = re.compile(r"://[^/?#:]*@")
_PARAMETER = re.compile(r"([?&;#])([^=&;#]*)=([^&;#]*)")
_SECRET_NAMES = ("token", "key", "secret", "pass", "pwd", "sig", "credential", "auth", "jwt")


def masked(secret: str) -> str:
    """Return stars, or for a URL the URL without its secrets."""
    return without_secrets(secret) if _URL.match(secret) else STARS


def without_secrets(text: str) -> str:
    """Mask the secrets of all URLs in a text.

    Masked are passwords, users without a password (they may be tokens), and the values of
    parameters that are named like a secret.
    """
    if "://" not in text:
        return text
    hidden = _USER.sub(f"://{STARS}@", _PASSWORD.sub(_credentials, text))
    return _PARAMETER.sub(_parameter, hidden)


def _credentials(match: re.Match[str]) -> str:
    user, password = match.groups()
    return f"://{user}:{STARS}@" if password else f"://{STARS}@"


def _parameter(match: re.Match[str]) -> str:
    before, name, _ = match.groups()
    is_secret = any(part in unquote_plus(name).lower() for part in _SECRET_NAMES)
    return f"{before}{name}={STARS}" if is_secret else match[0]


# ---- suggestions for misspelled names: `Did you mean "port"?`


SIMILAR: Final = 0.7  # difflib's own 0.6 takes "bogus" for "blobs"


def closest(name: str, names: Iterable[str], prefix: str = "") -> str:
    """Return `Did you mean "..."?` with the most similar of the names, or an empty text.

    The prefix, which all names share, is shown and not compared.
    """
    near = similar(name, names)
    return did_you_mean(prefix + near[0]) if near else ""


def similar(
    name: str, names: Iterable[str], most: int = 1, least_share: float = SIMILAR
) -> list[str]:
    """Return the most similar names, best first.

    Short names share few letters: they are similar if one letter is changed, or two are swapped.

    Args:
        name: The name that was given.
        names: The names that exist.
        most: The maximum number of names to return.
        least_share: The minimum share of equal letters.
    """
    from difflib import get_close_matches  # only mistakes need it

    every = list(names)
    near = get_close_matches(name, every, most, least_share)
    return near or [other for other in every if _is_one_slip_away(name, other)][:most]


def _is_one_slip_away(name: str, other: str) -> bool:
    """Return whether one letter is changed, or two are swapped."""
    if len(name) != len(other) or len(name) < 3:
        return False
    changed = sum(left != right for left, right in zip(name, other, strict=True))
    return changed == 1 or (changed == 2 and sorted(name) == sorted(other))


def did_you_mean(name: str) -> str:
    """Return the question."""
    return f'Did you mean "{name}"?'
