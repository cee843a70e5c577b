"""Masks for secrets: stars, also in place of secrets within URLs."""

import re
from urllib.parse import unquote_plus

STARS = "***"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
# Greedy up to the last @: a password may have one, and a / too, if it was not encoded.
_PASSWORD = re.compile(r"://([^:/?#@]*):(.*)@", re.DOTALL)
_USER = re.compile(r"://[^/?#:]*@")
_PARAMETER = re.compile(r"([?&;#])([^=&;#]*)=([^&;#]*)")
_SECRET_NAMES = ("token", "key", "secret", "pass", "pwd", "sig", "credential", "auth", "jwt")


def masked(secret: str) -> str:
    """Return a secret as it may be shown: stars, or a URL without its secrets."""
    return without_secrets(secret) if _URL.match(secret) else STARS


def without_secrets(text: str) -> str:
    """Return a text as it may be shown.

    A URL in it has no password, no user without a password (it may be a token) and no parameter
    with the name of a secret.
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
