"""Secrets are shown as stars; of a URL, only the password is one."""

import re

_STARS = "***"


def masked(value: str) -> str:
    """The value as it may be shown."""
    if "://" not in value:
        return _STARS
    # greedy up to the last @: a password may have one, and a / too, if it was not encoded
    hidden = re.sub(r"://([^:/@]*):.*@", rf"://\1:{_STARS}@", value)
    return re.sub(r"(password=)[^&]*", rf"\1{_STARS}", hidden)
