"""Redis commands as bytes.

The format is RESP (https://redis.io/docs/latest/develop/reference/protocol-spec/).
A call of the script has hundreds of arguments. hiredis' `pack_command` takes 0.2 us for each, which
is 4 % of an event in a batch.
"""

from collections.abc import Iterable
from typing import Final

# Bytes before an argument, by its length: the end of the argument before it, and the length.
_BEFORE: Final = [b"\r\n$%d\r\n" % length for length in range(1024)]


def packed(name: bytes, arguments: Iterable[bytes | int], /) -> bytes:
    """Return a command as bytes.

    Args:
        name: Name of the command.
        arguments: Its arguments; an int is sent as its digits.
    """
    parts: list[bytes] = []
    length, count = len(name), 1
    parts.append(b"$%d\r\n" % length)
    parts.append(name)
    for argument in arguments:
        text = argument if isinstance(argument, bytes) else b"%d" % argument
        length = len(text)
        parts.append(_BEFORE[length] if length < 1024 else b"\r\n$%d\r\n" % length)
        parts.append(text)
        count += 1
    parts.append(b"\r\n")
    return b"*%d\r\n" % count + b"".join(parts)
