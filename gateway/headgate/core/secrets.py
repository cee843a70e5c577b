"""Masks for secrets, also for secrets inside URLs."""

import re
from urllib.parse import unquote_plus

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
