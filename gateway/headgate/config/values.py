"""Where values come from: the TOML file, and the environment over it.

Both become one flat table, path -> `Given`, so that a value and its origin stay together. A path
is (section, option), or (section, name, option) in the sections whose tables have names.
"""

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, get_args, get_origin

from headgate.config.problems import ConfigError, Problem, shown
from headgate.config.settings import NAMED, SECTIONS, dotted
from headgate.core.option import Option
from headgate.core.spelling import closest
from headgate.errors_in_words import file_error

Paths = tuple[str, ...]

_ENVIRONMENT_PREFIX = "HEADGATE_"
_NO_FILE = "Correct the path, or write one: headgate config --reference > headgate.toml"
_LEVELS = "__"  # Kubernetes sets HEADGATE_PORT and the like for a Service; those have no `__`


class Given(NamedTuple):
    """A value as written. is_text: from the environment, where everything is text."""

    value: Any
    origin: str
    is_text: bool = False


def read_file(file: Path) -> str:
    """The text of the file. Raises ConfigError when it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        wrong = Problem(
            "--config", f"{file}: {file_error(error)}", "a readable TOML file in UTF-8", _NO_FILE
        )
        raise ConfigError(str(file), [wrong]) from None


def from_toml(file: Path, text: str, problems: list[Problem]) -> dict[Paths, Given]:
    """The values of the file's sections. Raises ConfigError when it is not TOML at all."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        wrong = Problem(file.name, str(error), "TOML 1.0")
        raise ConfigError(str(file), [wrong]) from None
    lines = line_numbers(text)
    given = {}
    for path, value in _walk(tree, problems):
        line = lines.get(path) or lines.get(path[:-1]) or lines.get(path[:1])
        given[path] = Given(value, f"{file.name}:{line}" if line else file.name)
    return given


def from_environment(
    environ: Mapping[str, str], given: Mapping[Paths, Given], problems: list[Problem]
) -> dict[Paths, Given]:
    """The values of `HEADGATE_<SECTION>__<OPTION>` and `HEADGATE_<SECTION>__<NAME>__<OPTION>`."""
    found = {}
    names = _Names(given)
    for variable in sorted(environ):
        if variable.startswith(_ENVIRONMENT_PREFIX) and _LEVELS in variable:
            path = _path_of(variable, names, problems)
            if path is not None:
                found[path] = Given(environ[variable], variable, is_text=True)
    return found


def line_numbers(text: str) -> dict[Paths, int]:
    """The line of each table header and key, by path. tomllib tells none, and an origin without
    a line costs the reader a search. Lines inside multi-line values may add paths that do not
    exist: harmless, as only paths that tomllib found are looked up, and the first line wins.
    """
    lines: dict[Paths, int] = {}
    table: Paths = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$", line)
        if header:
            table = _parts(header[1])
            lines.setdefault(table, number)
            continue
        key = re.match(r"""\s*((?:"[^"]*"|'[^']*'|[\w.\- ])+?)\s*=""", line)
        if key:
            lines.setdefault(table + _parts(key[1]), number)
    return lines


def _parts(dotted_key: str) -> Paths:
    found = re.findall(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w\-]+))\s*""", dotted_key)
    return tuple(double or single or bare for double, single, bare in found)


def _walk(tree: Mapping[str, Any], problems: list[Problem]) -> Iterator[tuple[Paths, Any]]:
    for section, table in tree.items():
        if section not in SECTIONS and section not in NAMED:
            problems.append(_unknown_section(section))
        elif not isinstance(table, dict):
            problems.append(Problem(section, shown(table), f"a table: [{section}]"))
        elif section in SECTIONS:
            yield from (((section, name), value) for name, value in table.items())
        else:
            yield from _walk_named(section, table, problems)


def _walk_named(
    section: str, tables: Mapping[str, Any], problems: list[Problem]
) -> Iterator[tuple[Paths, Any]]:
    for name, table in tables.items():
        if isinstance(table, dict):
            yield (section, name), None  # an empty table is one, too
            yield from (((section, name, option), value) for option, value in table.items())
        else:
            expected = f"a table: [{section}.NAME]"
            problems.append(Problem(dotted((section, name)), shown(table), expected))


def _unknown_section(section: str) -> Problem:
    sections = [*SECTIONS, *NAMED]
    return Problem(
        section, "unknown section", f"one of {', '.join(sections)}", closest(section, sections)
    )


class _Names:
    """`main_backfill` means `main-backfill` when the file has that: variables take no dashes."""

    def __init__(self, given: Iterable[Paths]) -> None:
        self._there = {path[:2] for path in given}
        self._alike: dict[tuple[str, str], list[str]] = {}
        for section, name in self._there:
            spelled = re.sub(r"\W", "_", name).lower()
            self._alike.setdefault((section, spelled), []).append(name)

    def meant(self, section: str, spelled: str) -> str:
        """The name in the file, or what is spelled where no one name fits."""
        alike = self._alike.get((section, spelled), [])
        is_one = (section, spelled) not in self._there and len(alike) == 1
        return alike[0] if is_one else spelled


def _path_of(variable: str, names: _Names, problems: list[Problem]) -> Paths | None:
    section, *rest = variable.removeprefix(_ENVIRONMENT_PREFIX).lower().split(_LEVELS)
    if section == "topics":
        expected = "topics in the file only: their names do not fit into a variable's"
        problems.append(Problem(variable, "a topic from the environment", expected))
    elif section in SECTIONS and len(rest) == 1:
        return (section, rest[0])
    elif section in NAMED and len(rest) == 2:
        return (section, names.meant(section, rest[0]), rest[1])
    else:
        expected = "HEADGATE_<SECTION>__<OPTION> or HEADGATE_<SECTION>__<NAME>__<OPTION>"
        fix = closest(section, [*SECTIONS, *NAMED])
        problems.append(Problem(variable, "no such section or option", expected, fix))
    return None


# From what TOML or the environment gives to an option's type.


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
