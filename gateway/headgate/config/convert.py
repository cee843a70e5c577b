"""From what TOML or the environment gives to an option's type."""

import dataclasses
import tomllib
from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from headgate.config.errors import shown
from headgate.core.option import Option


class BadValueError(Exception):
    """A value that an option does not take; `expected` says what it does take."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.expected = expected


def convert(option: Option, value: Any, *, is_text: bool) -> Any:
    """The value in the option's type.

    is_text: it is from the environment, where everything is text and a list is separated by
    commas. Raises BadValueError.
    """
    kind = _without_none(option.kind)
    if get_origin(kind) is tuple:
        return _list(option, get_args(kind)[0], value, is_text=is_text)
    if dataclasses.is_dataclass(kind):
        return _table(option, kind, value)
    return _single(option, kind, value, is_text=is_text)


def expected(option: Option) -> str:
    """What the option takes, in words."""
    kind = _without_none(option.kind)
    if get_origin(kind) is tuple:
        return f"a list of {_words(option, get_args(kind)[0])}"
    return _words(option, kind)


def allowed(option: Option) -> Sequence[str]:
    """The values of an option that takes one of a few; else empty."""
    kind = _without_none(option.kind)
    kind = get_args(kind)[0] if get_origin(kind) is tuple else kind
    return get_args(kind) if get_origin(kind) is Literal else ()


def _without_none(kind: Any) -> Any:
    if isinstance(kind, UnionType):
        return next(each for each in get_args(kind) if each is not NoneType)
    return kind


def _words(option: Option, kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(shown(each) for each in get_args(kind))
    if kind is bool:
        return "true or false"
    if dataclasses.is_dataclass(kind):
        return f"a table such as {option.about.example}"
    if kind is int:
        return f"an integer from {option.about.minimum} to {option.about.maximum}"
    return "text"


def _list(option: Option, kind: Any, value: Any, *, is_text: bool) -> tuple[Any, ...]:
    if isinstance(value, str):
        # one value needs no brackets in TOML either, and brokers come as "a:9092,b:9092" anywhere
        value = _listed(value)
    if not isinstance(value, list):
        raise BadValueError(expected(option))
    return tuple(_single(option, kind, each, is_text=is_text) for each in value)


def _table(option: Option, kind: Any, value: Any) -> Any:
    """A small table of texts, all of them needed."""
    names = {each.name for each in dataclasses.fields(kind)}
    if (
        not isinstance(value, dict)
        or value.keys() != names
        or not all(isinstance(each, str) for each in value.values())
    ):
        raise BadValueError(expected(option))
    return kind(**value)


def _listed(text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            parsed = tomllib.loads(f"list = {text}")["list"]
        except tomllib.TOMLDecodeError as error:
            raise BadValueError(f"a TOML list ({error})") from None
        return list(parsed)
    return [each.strip() for each in text.split(",") if each.strip()]


def _single(option: Option, kind: Any, value: Any, *, is_text: bool) -> Any:
    if kind is bool:
        return _boolean(option, value, is_text=is_text)
    if kind is int:
        return _integer(option, value, is_text=is_text)
    if not isinstance(value, str) or (get_origin(kind) is Literal and value not in get_args(kind)):
        raise BadValueError(expected(option))
    return value


def _boolean(option: Option, value: Any, *, is_text: bool) -> bool:
    if is_text and value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise BadValueError(expected(option))
    return value


def _integer(option: Option, value: Any, *, is_text: bool) -> int:
    if is_text and isinstance(value, str):
        value = _parsed_integer(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadValueError(expected(option))
    below = option.about.minimum is not None and value < option.about.minimum
    above = option.about.maximum is not None and value > option.about.maximum
    if below or above:
        raise BadValueError(expected(option))
    return value


def _parsed_integer(text: str) -> Any:
    try:
        return int(text)  # like TOML, takes 10_000
    except ValueError:
        return text
