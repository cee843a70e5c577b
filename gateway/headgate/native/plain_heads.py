"""Where a request lies in the bytes that came, and which values of its head are its own."""

import re
from typing import Final

# `http.header_max_bytes` is at least 1024, which no value here comes near. Where a value is not of
# this shape there is no second group: the head would look as one whose value was taken out.
_OWN_VALUES: Final = re.compile(
    rb"\r\n((?i:content-length|x-request-id|traceparent|idempotency-key"
    rb"|headgate-(?:key|event-id|timestamp))):(?: ?([!-~]{1,128})(?=\r\n))?"
)
_LENGTH: Final = b"content-length"
_LENGTH_DIGITS: Final = 9
_END: Final = b"\r\n\r\n"
_HEAD_MAX_BYTES: Final = 4096


def framed(data: bytes, /) -> tuple[bytes, dict[bytes, bytes], int, int] | None:
    """The request that the data begins with. None: its head is not whole, is long, names no length,
    or has one of these values twice or not as a plain word.

    Its head without the values that are its own; those, but for the length, names in lower case;
    where its body begins, and where it ends.
    """
    stop = data.find(_END, 0, _HEAD_MAX_BYTES)
    if stop < 0:
        return None
    parts: list[bytes] = []
    own: dict[bytes, bytes] = {}
    length, at = b"", 0
    for found in _OWN_VALUES.finditer(data, 0, stop + 2):
        name, value = found[1].lower(), found[2]
        if value is None:
            return None
        begin = found.start(2)
        parts.append(data[at:begin])
        at = begin + len(value)
        if name == _LENGTH and not length:
            length = value
        elif name in own or name == _LENGTH:
            return None
        else:
            own[name] = value
    if not length.isdigit() or len(length) > _LENGTH_DIGITS:
        return None
    parts.append(data[at:stop])
    start = stop + len(_END)
    return b"".join(parts), own, start, start + int(length)
