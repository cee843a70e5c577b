"""Reading JSON that people wrote: every mistake is named by its field."""

from collections.abc import Collection, Mapping

from headgate.native.plain_answers import shortened


class FieldError(ValueError):
    """A field is missing, unknown or wrong. field: dotted; empty for the whole document. It may be
    the client's own text, so a long one is cut."""

    def __init__(self, field: str, what: str) -> None:
        shown = shortened(field)
        super().__init__(f"{shown}: {what}" if field else what)
        self.field = shown


def known(field: str, value: object, names: Collection[str], *needed: str) -> Mapping[str, object]:
    """An object with these fields alone, the needed ones among them. Raises FieldError."""
    if not isinstance(value, Mapping):
        raise FieldError(field, "a JSON object is asked for")
    prefix = f"{field}." if field else ""
    for name in value:
        if name not in names:
            raise FieldError(prefix + str(name), f"not known; there are {', '.join(sorted(names))}")
    for name in needed:
        if name not in value:
            raise FieldError(prefix + name, "missing")
    return value


def text(field: str, value: object, limit: int) -> str:
    """A name of 1 to `limit` printable characters. Raises FieldError."""
    if not isinstance(value, str) or not 0 < len(value) <= limit or not value.isprintable():
        raise FieldError(field, f"a text of 1 to {limit} printable characters")
    return value


def number(field: str, value: object, minimum: int, maximum: int) -> int:
    """A whole number. Raises FieldError."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not minimum <= value <= maximum:  # type: ignore[operator]
        raise FieldError(field, f"a whole number from {minimum} to {maximum}")
    return value  # type: ignore[return-value]
