"""The JSON text of a successful event; `_answers.c` writes it if it is all plain ASCII.

The text is built by hand, because each event of a batch has one: a dict would cost more.
"""

import base64
import json
from typing import Final

MAX_SHOWN: Final = 200  # characters; as in _answers.c


def shown(
    head: str,
    partition: int,
    offset: int,
    key: bytes | None,
    event_id: str | None,
    records: int,
    /,
) -> str:
    """Return the JSON text of an event.

    Args:
        head: Beginning of the object.
        partition: Partition of the event.
        offset: Offset of the event.
        key: Key of the event.
        event_id: Id of the event.
        records: Number of records of the event.
    """
    own_id = "null" if event_id is None else quoted(shortened(event_id))
    return (
        f'{head},"partition":{partition},"offset":{offset}{key_text(key)},"event_id":{own_id},'
        f'"records":{records}}}'
    )


def key_text(key: bytes | None) -> str:
    """Return the JSON member of a key; an empty text without a key."""
    if key is None:
        return ""
    name, text = shown_key(key)
    return f',"{name}":{quoted(text)}'


def shown_key(key: bytes) -> tuple[str, str]:
    """Return the name of a key's JSON member, and its text."""
    try:
        return "key", shortened(key.decode())
    except UnicodeDecodeError:
        return "key_base64", shortened(base64.b64encode(key).decode())


def shortened(text: str) -> str:
    """Return a client's text for a response: the beginning and an ellipsis if it is long."""
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}\N{HORIZONTAL ELLIPSIS}"


def quoted(text: str) -> str:
    """Return a text as JSON without control characters.

    In printable text only two characters need an escape.
    """
    if text.isalnum() or (text.isprintable() and '"' not in text and "\\" not in text):
        return f'"{text}"'
    if text.isprintable():
        return json.dumps(text, ensure_ascii=False)
    return json.dumps(text).replace("\x7f", "\\u007f")
