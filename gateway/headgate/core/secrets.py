"""Secrets are shown as stars; of a URL, only what may be one."""

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
    """A secret as it may be shown: nothing of it, unless it is a URL."""
    return without_secrets(secret) if _URL.match(secret) else STARS


def without_secrets(text: str) -> str:
    """A text as it may be shown: of a URL in it no password, no user without one, which may be a
    token, and no parameter with the name of a secret."""
    if "://" not in text:
        return text
    hidden = _USER.sub(f"://{STARS}@", _PASSWORD.sub(_credentials, text))
    return _PARAMETER.sub(_parameter, hidden)


def _credentials(found: re.Match[str]) -> str:
    user, password = found.groups()
    return f"://{user}:{STARS}@" if password else f"://{STARS}@"


def _parameter(found: re.Match[str]) -> str:
    before, name, _ = found.groups()
    is_secret = any(one in unquote_plus(name).lower() for one in _SECRET_NAMES)
    return f"{before}{name}={STARS}" if is_secret else found[0]
