"""The framing of HTTP requests in received bytes, and the values that each request has alone."""

import re
from typing import Final

# `http.header_max_bytes` is at least 1024, far more than any value here. If a value has another
# shape, the second group is missing: the head would look like one without its value.
_OWN_VALUES: Final = re.compile(
    rb"\r\n((?i:content-length|x-request-id|traceparent|idempotency-key"
    rb"|headgate-(?:key|event-id|timestamp))):(?: ?([!-~]{1,128})(?=\r\n))?"
)
_LENGTH: Final = b"content-length"
_LENGTH_DIGITS: Final = 9
_END: Final = b"\r\n\r\n"
_HEAD_MAX_BYTES: Final = 4096


def framed(data: bytes, /) -> tuple[bytes, dict[bytes, bytes], int, int] | None:
    """Frame the request at the beginning of the data.

    Returns:
        The head without the request's own values; these values by name in lower case, without the
        length; and the beginning and the end of the body. None if the head is incomplete or long,
        has no length, or has one of the values twice or not as a plain word.
    """
    stop = data.find(_END, 0, _HEAD_MAX_BYTES)
    if stop < 0:
        return None
    parts: list[bytes] = []
    own: dict[bytes, bytes] = {}
    length, at = b"", 0
    for match in _OWN_VALUES.finditer(data, 0, stop + 2):
        name, value = match[1].lower(), match[2]
        if value is None:
            return None
        begin = match.start(2)
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
