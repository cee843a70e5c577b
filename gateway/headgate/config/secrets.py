"""Secrets are shown as stars; of a URL, only the password is one."""

from urllib.parse import urlsplit, urlunsplit

_STARS = "***"


def masked(value: str) -> str:
    """The value as it may be shown."""
    parts = urlsplit(value)
    if not parts.scheme or not (parts.netloc or parts.path):
        return _STARS
    if "password=" in parts.query:
        return urlunsplit(parts._replace(query=_STARS))
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return value
    name, colon, _password = user.partition(":")
    return urlunsplit(parts._replace(netloc=f"{name}{colon}{_STARS if colon else ''}@{host}"))
