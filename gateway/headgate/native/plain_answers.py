"""The JSON text of an event that ended well: what `_answers.c` writes where it is all plain ASCII.

Put together by hand, as there is one for each event of a batch: a dict of it costs more.
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
    """head: how the object begins."""
    own_id = "null" if event_id is None else quoted(shortened(event_id))
    return (
        f'{head},"partition":{partition},"offset":{offset}{key_text(key)},"event_id":{own_id},'
        f'"records":{records}}}'
    )


def key_text(key: bytes | None) -> str:
    """The member that has the key, if there is one."""
    if key is None:
        return ""
    name, text = shown_key(key)
    return f',"{name}":{quoted(text)}'


def shown_key(key: bytes) -> tuple[str, str]:
    """The name of the member that has a key, and its text."""
    try:
        return "key", shortened(key.decode())
    except UnicodeDecodeError:
        return "key_base64", shortened(base64.b64encode(key).decode())


def shortened(text: str) -> str:
    """A text of a client as an answer repeats it: of a long one the beginning, and an ellipsis."""
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}\N{HORIZONTAL ELLIPSIS}"


def quoted(text: str) -> str:
    """As JSON without control characters. What is printable needs no escape but for two signs."""
    if text.isalnum() or (text.isprintable() and '"' not in text and "\\" not in text):
        return f'"{text}"'
    if text.isprintable():
        return json.dumps(text, ensure_ascii=False)
    return json.dumps(text).replace("\x7f", "\\u007f")
