"""Reading JSON objects into msgspec structs, members of type Raw as their exact slices.

msgspec refuses lone-surrogate escapes even in members that it only skips. Such an object is read
member by member, so that only members of type text refuse these escapes.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from headgate.formats.json_text import members
from headgate.model.outcome import SHOWN, Failure, Reason, Refused

S = TypeVar("S", bound=msgspec.Struct)
_UNKNOWN = "Object contains unknown field"  # msgspec's own words
_LONGEST = len(_UNKNOWN) + SHOWN
ABSENT = msgspec.Raw(b"")  # the default of an optional Raw member


class StructReader(Generic[S]):
    """Reader for objects of one type. Raises Refused (malformed)."""

    __slots__ = ("_decode", "_kind", "_members", "_required", "_unknown", "_what")

    def __init__(self, kind: type[S], what: str, unknown: Reason = Reason.MALFORMED) -> None:
        """Compile the decoders.

        Args:
            kind: The struct.
            what: The name of the object in errors, such as `the event`.
            unknown: The reason for refusing an unknown member.
        """
        self._kind = kind
        self._what = what
        self._unknown = unknown
        self._decode = msgspec.json.Decoder(kind).decode
        self._members: dict[str, Callable[[bytes], object]] = {}
        self._required = {field.name for field in msgspec.structs.fields(kind) if field.required}
        for field in msgspec.structs.fields(kind):
            reader = msgspec.json.Decoder(field.type).decode
            self._members[field.name] = msgspec.Raw if field.type is msgspec.Raw else reader

    def read(self, text: bytes) -> S:
        """Parse an object; all of the text must be UTF-8."""
        try:
            text.decode()
            return self._decode(text)
        except UnicodeDecodeError as error:
            raise self._wrong(f"invalid UTF-8 at byte {error.start}") from None
        except msgspec.ValidationError as error:
            raise self._wrong(str(error)) from None
        except (msgspec.DecodeError, RecursionError):
            return self._read_by_member(text)

    def _read_by_member(self, text: bytes) -> S:
        if text.lstrip(b" \t\r\n")[:1] != b"{":
            raise self._wrong("Expected `object`")
        values = members(text)
        missing = sorted(self._required - values.keys())
        if missing:
            raise self._wrong(f"Object missing required field `{missing[0]}`")
        return self._kind(**{name: self._member(name, value) for name, value in values.items()})

    def _member(self, name: str, value: bytes) -> object:
        read = self._members.get(name)
        if read is None:
            raise self._wrong(f"Object contains unknown field `{name}`")
        try:
            return read(value)
        except msgspec.ValidationError as error:
            raise self._wrong(f"{error} - at `$.{name}`") from None
        except (msgspec.DecodeError, RecursionError):
            raise self._wrong(f"a lone surrogate, or too deep - at `$.{name}`") from None

    def _wrong(self, detail: str) -> Refused:
        is_unknown = detail.startswith(_UNKNOWN)
        if is_unknown and len(detail) > _LONGEST:  # it contains the name of the field
            detail = f"{detail[:_LONGEST]}..."
        reason = self._unknown if is_unknown else Reason.MALFORMED
        return Refused(Failure(reason, f"{self._what}: {detail}"))
