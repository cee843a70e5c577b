"""What "the same content" means on one topic: its bytes, or its canonical form."""

from collections.abc import Callable, Sequence
from functools import cache

from headgate.core.formats.canonical import Fallback, canonical
from headgate.core.http.media_type import is_json
from headgate.core.keys import parse_pointer
from headgate.core.suppression.digest import Digester

_JSON = b"application/json"


class Comparison:
    """Digests of canonical forms, and of bytes where there is none.

    rules: the policy's fingerprint.  ignore: JSON Pointers.  max_bytes: texts that are longer
    are compared by their bytes. It goes to another process as these three.
    """

    __slots__ = ("_given", "forms", "ignore", "max_bytes", "raw")

    def __init__(self, rules: bytes, ignore: Sequence[str], max_bytes: int) -> None:
        self._given = (rules, tuple(ignore), max_bytes)
        self.ignore = [parse_pointer(pointer) for pointer in ignore]
        self.max_bytes = max_bytes
        self.forms = Digester(rules, b"canon")
        self.raw = Digester(rules).digest

    def __reduce__(self) -> tuple[Callable[..., "Comparison"], tuple[object, ...]]:
        return received_comparison, self._given

    def digest(
        self, value: bytes | None, content_type: bytes | None
    ) -> tuple[bytes, Fallback | None]:
        """16 bytes, and why they are of the bytes as sent (None: they are not, or a tombstone)."""
        if value is None:
            return self.raw(None), None
        fallback = self.must_be_raw(value, content_type)
        if fallback is None:
            form = canonical(value, self.ignore)
            if not isinstance(form, Fallback):
                return self.forms.digest(form, content_type), None
            fallback = form
        return self.raw(value, content_type), fallback

    def must_be_raw(self, value: bytes, content_type: bytes | None) -> Fallback | None:
        """Why it is certain without a look into the value that its bytes are compared."""
        if content_type != _JSON and not is_json((content_type or b"").decode("latin-1")):
            return Fallback.NOT_JSON
        return Fallback.LARGE if len(value) > self.max_bytes else None


@cache  # `examination.forget_received` empties it
def received_comparison(rules: bytes, ignore: tuple[str, ...], max_bytes: int) -> Comparison:
    """One that came from another process, which has the configuration and holds it."""
    return Comparison(rules, ignore, max_bytes)
