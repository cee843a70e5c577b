"""Checks texts for HTTP headers, and hides their values in other texts."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from headgate_client.errors import HeadgateError, InvalidEventError, InvalidOptionError

Hide: TypeAlias = Callable[[str], str]

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_PRODUCER_CHARS = 100
_KEY = re.compile(r"[!-~]{1,255}")
_SHORT = 6  # a shorter value is hardly a secret, and may be a part of any text
_SEPARATOR = re.compile(r"[\s;,=]+")
_FIX = "visible ASCII characters, with spaces only between them"
# Headers that the client sets from its arguments, with the argument of each.
RESERVED = {
    "Idempotency-Key": "use idempotency_key= of send() or send_batch()",
    "Headgate-Key": "use key=",
    "Headgate-Key*": "use key=",
    "Headgate-Event-Id": "use id=",
    "Headgate-Timestamp": "use timestamp=",
    "Headgate-Tombstone": "send the value TOMBSTONE",
    "Headgate-Header-*": "use headers=",
    "Headgate-Producer": "use Client(producer=...)",
    "Headgate-Batch": "send() sends a list as one event, and send_batch() each of its items",
    "Content-Type": "use Event(value, content_type=...)",
    "Content-Encoding": "use Client(compression=...)",
    "Content-Length": "leave it out: the client sets it",
    "Transfer-Encoding": "leave it out: the client sets it",
    "Prefer": "leave it out: the client needs the outcome of each event",
    "ce-*": "use CloudEvent(...)",
}
_RESERVED = {name.lower(): fix for name, fix in RESERVED.items()}
_PREFIXES = ("headgate-header-", "ce-")


def checked_token(token: object) -> str:
    """Return the token without blanks around it. No error repeats a value."""
    text = token.strip() if isinstance(token, str) else ""
    if text.lower().startswith("bearer "):
        raise InvalidOptionError("token: leave out the word Bearer; the client adds it")
    if _VALUE.fullmatch(text) is None:
        raise InvalidOptionError("token: it is empty, or not one line of visible ASCII characters")
    return text


def checked_producer(name: object) -> str:
    """Return the name if a gateway takes it. Raises InvalidOptionError."""
    if not _is_value(name, _PRODUCER_CHARS):
        raise InvalidOptionError(f"producer: use 1 to {_PRODUCER_CHARS} {_FIX}")
    return str(name)


def checked_key(key: str | None) -> str | None:
    """Return the Idempotency-Key if a gateway takes it. Raises InvalidEventError."""
    if key is not None and not is_key(key):
        raise InvalidEventError(
            "idempotency_key: use 1 to 255 visible ASCII characters, without spaces"
        )
    return key


def is_key(key: object) -> bool:
    """Return whether the gateway takes an Idempotency-Key: bare, or in quotes."""
    if not isinstance(key, str):
        return False
    if len(key) >= 2 and key[0] == key[-1] == '"':
        key = key[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return _KEY.fullmatch(key) is not None


def checked_headers(
    headers: Mapping[str, str],
    error: type[HeadgateError] = InvalidOptionError,
    *,
    has_token: bool = False,
) -> Mapping[str, str]:
    """Return the headers if HTTP can carry them and the client sets none of them.

    Args:
        headers: Headers by name.
        error: Class of the error to raise.
        has_token: The client has a token, which it sends as `Authorization`.
    """
    if not isinstance(headers, Mapping):
        kind = type(headers).__name__
        raise error(f"request_headers: use a dict of str, not {kind}")
    names: set[str] = set()
    for name, value in headers.items():
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise error(
                f"request_headers: {name!r} is not a header name; use letters, digits and dashes"
            )
        if value != "" and not _is_value(value):
            raise error(f"request_headers: the value of {name!r}: use {_FIX}")
        if name.lower() in names:
            raise error(f"request_headers: {name!r} is in it twice, in other letters; give it once")
        names.add(name.lower())
        fix = _reserved(name.lower(), has_token)
        if fix is not None:
            raise error(f"request_headers: the client sets {name!r} itself: {fix}")
    return headers


def _reserved(name: str, has_token: bool) -> str | None:
    """Return what to use instead of a header that the client sets itself, else None."""
    if name == "authorization" and has_token:
        return "leave out this header or token="
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            name = f"{prefix}*"
    return _RESERVED.get(name)


def hide(values: Iterable[str], text: str) -> str:
    """Replace the values of headers in a text, whole and in parts such as the token of a scheme.

    A page may show them in the forms of a URL, of HTML or of JSON.
    """
    parts = {part for value in values for part in (value, *_SEPARATOR.split(value))}
    secrets = sorted((part for part in parts if len(part) >= _SHORT), key=len, reverse=True)
    if not secrets:
        return text
    return re.sub("|".join("".join(map(_any_form, secret)) for secret in secrets), "***", text)


def _any_form(char: str) -> str:
    if char.isalnum():
        return char
    return rf"(?:\\?{re.escape(char)}|(?i:(?:%|\\u00){ord(char):02x})|&#?\w+;)"


def _is_value(value: object, longest: int | None = None) -> bool:
    is_value = isinstance(value, str) and _VALUE.fullmatch(value) is not None
    return is_value and (longest is None or len(str(value)) <= longest)
