"""Reading JSON that people wrote: every mistake is named by its field."""

from collections.abc import Collection, Mapping


class FieldError(ValueError):
    """A field is missing, unknown or wrong. field: dotted; empty for the whole document."""

    def __init__(self, field: str, what: str) -> None:
        super().__init__(f"{field}: {what}" if field else what)
        self.field = field


def known(field: str, asked: object, names: Collection[str], *needed: str) -> Mapping[str, object]:
    """An object with these fields alone, the needed ones among them. Raises FieldError."""
    if not isinstance(asked, Mapping):
        raise FieldError(field, "a JSON object is asked for")
    prefix = f"{field}." if field else ""
    for name in asked:
        if name not in names:
            raise FieldError(prefix + str(name), f"not known; there are {', '.join(sorted(names))}")
    for name in needed:
        if name not in asked:
            raise FieldError(prefix + name, "missing")
    return asked


def text(field: str, asked: object, limit: int) -> str:
    """A name of 1 to `limit` printable characters. Raises FieldError."""
    if not isinstance(asked, str) or not 0 < len(asked) <= limit or not asked.isprintable():
        raise FieldError(field, f"a text of 1 to {limit} printable characters")
    return asked


def number(field: str, asked: object, least: int, limit: int) -> int:
    """A whole number. Raises FieldError."""
    is_whole = isinstance(asked, int) and not isinstance(asked, bool)
    if not is_whole or not least <= asked <= limit:  # type: ignore[operator]
        raise FieldError(field, f"a whole number from {least} to {limit}")
    return asked  # type: ignore[return-value]
