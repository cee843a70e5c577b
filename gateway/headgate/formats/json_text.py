"""Reading JSON text without re-serialising it: validity, depth, and the values of a key rule.

msgspec validates the parts of a text that it skips, with three exceptions that are handled here:
invalid UTF-8 in skipped strings (checked once per body, in `decode`), deep nesting (`is_too_deep`
of the native package), and lone-surrogate escapes. RFC 8259 allows these escapes and msgspec
refuses them, so such texts take the slow path through the standard library.
"""

import heapq
import re
import sys
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar, cast

import msgspec

from headgate.formats.json_slow import Fraction, children, decoded, parse_slowly, scan, skip_blanks
from headgate.model.keys import KEY_MAX_BYTES, KeyRule, join_parts
from headgate.model.outcome import SHOWN, Failure, Reason, Refused, long_key, malformed
from headgate.native.plain_answers import shortened

_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")  # RFC 6901: no leading zeros
_UNFIT_NAME = re.compile(r'[\\"\x00-\x1f]')  # names that msgspec refuses for a field
NO_KEY_AT = "no key at "  # begins the detail of a missing key
_CUT_OFF = "Input data was truncated"  # of msgspec
_CROWD = 250_000  # commas; this many elements cost about 25 MB
_EMPTY = msgspec.Raw(b"")
_ELEMENTS = msgspec.json.Decoder(list[msgspec.Raw])
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT = msgspec.json.Decoder(str)
_TEXT_OR_NUMBER = msgspec.json.Decoder(str | int | float | bool | None)
# A struct without fields validates the whole array and keeps nothing.
_ANY_ARRAY = msgspec.json.Decoder(msgspec.defstruct("AnyArray", [], array_like=True))
_ARRAY_FIELDS = 1000  # a later element is found by cutting all elements


def elements(document: bytes) -> list[bytes]:
    """Return the elements of a JSON array, each as its exact slice. Raises Refused."""
    try:
        return [bytes(element) for element in _ELEMENTS.decode(document)]
    except RecursionError:
        raise Refused(malformed("the JSON nests too deep")) from None
    except msgspec.DecodeError as error:
        if _has_surrogates(document):
            return [value for _, value in children(document, "[", "]")]
        raise _damaged(error, document) from None


def is_crowd(document: bytes, maximum: int) -> bool:
    """Return whether a large array has more than `maximum` elements; False for small texts."""
    if document.count(b",") <= max(maximum, _CROWD) or document.lstrip()[:1] != b"[":
        return False
    text, at = decoded(document), document.index(b"[")
    for _ in range(maximum):
        at = skip_blanks(text, scan(text, skip_blanks(text, at + 1))[1])
        if text[at : at + 1] != ",":
            return False
    return True


def _damaged(error: Exception, document: bytes) -> Refused:
    """Return the refusal of a text that msgspec cannot parse."""
    if str(error) == _CUT_OFF:
        return Refused(malformed(f"the JSON text ends too early, after {len(document)} bytes"))
    return Refused(malformed(str(error)))


def _has_surrogates(document: bytes) -> bool:
    return b"\\ud" in document or b"\\uD" in document


def members(document: bytes) -> dict[str, bytes]:
    """Return the members of a JSON object, each value as its exact slice.

    The last of duplicate names counts.

    Raises:
        Refused: The text is not a JSON object.
    """
    try:
        return {name: bytes(value) for name, value in _MEMBERS.decode(document).items()}
    except RecursionError:
        raise Refused(malformed("the JSON nests too deep")) from None
    except (msgspec.ValidationError, UnicodeDecodeError) as error:
        raise Refused(malformed(str(error))) from None
    except msgspec.DecodeError as error:
        if _has_surrogates(document):
            return dict(children(document, "{", "}"))
        raise _damaged(error, document) from None


class _Root(Protocol):
    """A document with only the members that a rule names, as f0, f1, ..."""

    f0: msgspec.Raw


class KeyReader:
    """A topic's key rule, compiled to a msgspec decoder that validates the whole document.

    A call returns the key, or None if the topic has no pointers. It raises Refused with
    `malformed`, `missing_key` or `invalid_key`, also if the parts of the key have more than
    `max_bytes` together.
    """

    def __init__(self, rule: KeyRule, max_bytes: int = sys.maxsize) -> None:
        self._max_bytes = max_bytes
        self._pointers = rule.pointers
        tokens = [pointer[0] for pointer in rule.pointers if pointer]
        first = dict.fromkeys(token for token in tokens if not _UNFIT_NAME.search(token))
        names = {token: f"f{i}" for i, token in enumerate(first)}
        fields = [(name, msgspec.Raw, _EMPTY) for name in names.values()]
        root = msgspec.defstruct(
            "Root", fields, rename={name: token for token, name in names.items()}
        )
        self._decode = cast("Callable[[bytes], _Root]", msgspec.json.Decoder(root).decode)
        self._is_single = bool(names) and [len(p) for p in rule.pointers] == [1]
        steps = {token: Step(token) for pointer in rule.pointers for token in pointer}
        self._steps = [[steps[token] for token in pointer] for pointer in rule.pointers]
        self._names = [names.get(pointer[0], "") if pointer else "" for pointer in rule.pointers]

    @classmethod
    def parse(cls, pointers: Sequence[str], max_bytes: int = KEY_MAX_BYTES) -> "KeyReader":
        """Return a reader for the JSON Pointers of a topic's option `key`."""
        return cls(KeyRule.parse(pointers), max_bytes)

    def __call__(self, document: bytes) -> bytes | None:
        try:
            root = self._decode(document)
        except msgspec.ValidationError:
            return self._read_other(document)
        except RecursionError:
            raise Refused(malformed("the JSON nests too deep")) from None
        except msgspec.DecodeError as error:
            if _has_surrogates(document):
                return self._read_slowly(document)
            raise _damaged(error, document) from None
        if self._is_single:
            raw = bytes(root.f0)
            if raw[:1] == b'"' and len(raw) > 2 and b"\\" not in raw:
                return raw[1:-1]  # the result of `_scalar` for most keys
            return _scalar(raw, self._pointers[0])
        return self._join(
            [
                self._walk(bytes(getattr(root, name)), number, 1)
                if name
                else self._walk(document.strip(), number, 0)
                for number, name in enumerate(self._names)
            ]
        )

    def _join(self, parts: Sequence[bytes]) -> bytes | None:
        if sum(map(len, parts)) > self._max_bytes:
            raise Refused(long_key(self._max_bytes))
        return join_parts(parts) if parts else None

    def _walk(self, raw: bytes, number: int, start: int) -> bytes:
        """Return the key part of a pointer.

        Args:
            raw: The value at the pointer's first `start` tokens.
            number: The index of the pointer.
            start: The number of tokens that are done.
        """
        for step in self._steps[number][start:]:
            raw = step(raw)
        return _scalar(raw, self._pointers[number])

    def _read_other(self, document: bytes) -> bytes | None:
        """Return the key of a document that is no object, such as an array with pointer `/0`."""
        raw = document.strip()
        try:
            (_ANY_ARRAY if raw[:1] == b"[" else _TEXT_OR_NUMBER).decode(raw)
        except RecursionError:
            raise Refused(malformed("the JSON nests too deep")) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if raw[:1] == b"[" and not _has_surrogates(document):
                raise _damaged(error, document) from None
            return self._read_slowly(document)
        return self._join([self._walk(raw, number, 0) for number in range(len(self._pointers))])

    def _read_slowly(self, document: bytes) -> bytes | None:
        if sum(document.count(sign) for sign in (b",", b"[", b"{")) > _CROWD:
            detail = f"a lone surrogate, in a document of more than {_CROWD} values"
            raise Refused(malformed(detail))
        parsed = parse_slowly(document)
        return self._join([_scalar_of(parsed, pointer) for pointer in self._pointers])


class Step:
    """Lookup of the member or element that a reference token names; b"" if there is none.

    Nothing else of the text is kept, because each of a million elements would cost 100 bytes.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._member: Callable[[bytes], _Root] | None = None
        if not _UNFIT_NAME.search(token):
            root = msgspec.defstruct("Member", [("f0", msgspec.Raw, _EMPTY)], rename={"f0": token})
            self._member = cast("Callable[[bytes], _Root]", msgspec.json.Decoder(root).decode)
        self._index = int(token) if _INDEX.fullmatch(token) else -1
        self._element: Callable[[bytes], object] | None = None
        if 0 <= self._index < _ARRAY_FIELDS:
            fields = [(f"f{n}", msgspec.Raw, _EMPTY) for n in range(self._index + 1)]
            array = msgspec.defstruct("Elements", fields, array_like=True)
            self._element = msgspec.json.Decoder(array).decode

    def __call__(self, raw: bytes) -> bytes:
        lead = raw[:1]
        if lead == b"{":
            if self._member is None:
                return members(raw).get(self._token, b"")
            return bytes(self._member(raw).f0)
        if lead != b"[" or self._index < 0:
            return b""
        if self._element is not None:
            return bytes(getattr(self._element(raw), f"f{self._index}"))
        slices = elements(raw)
        return slices[self._index] if self._index < len(slices) else b""


def _shown(pointer: tuple[str, ...]) -> str:
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in pointer)


def _missing(pointer: tuple[str, ...]) -> Refused:
    shown = _shown(pointer) or "the document itself"
    detail = f"{NO_KEY_AT}{shown!r}: it is absent, null or empty"
    return Refused(Failure(Reason.MISSING_KEY, detail))


def _invalid(pointer: tuple[str, ...], what: str) -> Refused:
    detail = f"the key at {_shown(pointer)!r} is {what}; use a string, an integer or a boolean"
    return Refused(Failure(Reason.INVALID_KEY, detail))


def _scalar(raw: bytes, pointer: tuple[str, ...]) -> bytes:
    """Return a key part: a string's UTF-8, an integer's source digits, or a boolean."""
    lead = raw[:1]
    if lead == b'"':
        if len(raw) == 2:
            raise _missing(pointer)
        return raw[1:-1] if b"\\" not in raw else _TEXT.decode(raw).encode()
    if lead in (b"", b"n"):
        raise _missing(pointer)
    if lead in (b"{", b"["):
        raise _invalid(pointer, "an object" if lead == b"{" else "an array")
    if lead not in (b"t", b"f") and (b"." in raw or b"e" in raw or b"E" in raw):
        raise _invalid(pointer, "a number with a fraction or an exponent")
    return raw


def _scalar_of(parsed: object, pointer: tuple[str, ...]) -> bytes:
    """Return a key part from a document that the standard library parsed (see `_scalar`)."""
    for token in pointer:
        if isinstance(parsed, dict):
            parsed = parsed.get(token)
        elif isinstance(parsed, list) and _INDEX.fullmatch(token):
            parsed = parsed[int(token)] if int(token) < len(parsed) else None
        else:
            parsed = None
    if parsed is None or parsed == "":
        raise _missing(pointer)
    if isinstance(parsed, bool):
        return b"true" if parsed else b"false"
    if isinstance(parsed, Fraction):
        raise _invalid(pointer, "a number with a fraction or an exponent")
    if not isinstance(parsed, str):
        raise _invalid(pointer, "an object" if isinstance(parsed, dict) else "an array")
    try:
        return parsed.encode()
    except UnicodeEncodeError:
        raise _invalid(pointer, "a string with a lone surrogate") from None


# ---- JSON objects as msgspec structs, members of type Raw as their exact slices
#
# msgspec refuses lone-surrogate escapes even in members that it only skips. Such an object is read
# member by member, so that only members of type text refuse these escapes.


S = TypeVar("S", bound=msgspec.Struct)
_UNKNOWN = "Object contains unknown field"  # msgspec's own words
_LONGEST = len(_UNKNOWN) + SHOWN
ABSENT = msgspec.Raw(b"")  # the default of an optional Raw member


class StructReader(Generic[S]):
    """Reader for objects of one type. Raises Refused (malformed).

    Args:
        kind: The struct.
        what: The name of the object in errors, such as `the event`.
        unknown: The reason for refusing an unknown member.
        lists: Whether the error about an unknown member lists the known ones.
    """

    __slots__ = ("_decode", "_kind", "_lists", "_members", "_required", "_unknown", "_what")

    def __init__(
        self,
        kind: type[S],
        what: str,
        unknown: Reason = Reason.MALFORMED,
        lists: bool = False,
    ) -> None:
        self._lists = lists
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
        if is_unknown and self._lists:
            detail = f"{detail}. The members are {', '.join(self._members)}"
        reason = self._unknown if is_unknown else Reason.MALFORMED
        return Refused(Failure(reason, f"{self._what}: {detail}"))


# ---- largest parts of a JSON document


DOMINANT = 0.5  # a child with half of its parent's bytes is more useful than the parent
_MAX_STEPS = 64  # each step scans one value, so this bounds the work for hostile nesting


class Weight(NamedTuple):
    """A JSON Pointer, and the bytes of its value as sent."""

    path: str
    bytes: int


def heaviest(document: bytes, count: int = 5) -> list[Weight]:
    """Return the largest values of a document, the largest first, none inside another.

    The search descends into a value if one child has half of its bytes, and always into the root:
    for a deal with 600 options the result is `/options`, not the deal and not one option. The
    result is empty if the document is not JSON.
    """
    heap: list[tuple[int, str, bytes]] = []
    weights: list[Weight] = []
    _open("", document.strip(), heap)
    for _ in range(_MAX_STEPS):
        if not heap or len(weights) == count:
            break
        size, path, value = heapq.heappop(heap)
        children = _children(path, value)
        if children and max(-child[0] for child in children) >= DOMINANT * -size:
            for child in children:
                heapq.heappush(heap, child)
        else:
            # A name may contain a lone surrogate, which a response must show as an escape.
            shown = path.encode("utf-8", "backslashreplace").decode()
            weights.append(Weight(shortened(shown), -size))
    return weights


def _open(path: str, value: bytes, heap: list[tuple[int, str, bytes]]) -> None:
    for child in _children(path, value):
        heapq.heappush(heap, child)


def _children(path: str, value: bytes) -> list[tuple[int, str, bytes]]:
    try:
        if value[:1] == b"{":
            named = list(members(value).items())
        elif value[:1] == b"[":
            named = [(str(index), child) for index, child in enumerate(elements(value))]
        else:
            return []
    except (Refused, UnicodeDecodeError):
        return []
    return [(-len(child), f"{path}/{_escaped(name)}", child) for name, child in named]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
