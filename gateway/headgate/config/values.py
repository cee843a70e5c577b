"""Values from the TOML file and the environment, and their conversion to the options' types.

Both sources become one flat table, path -> `Given`, so that a value and its origin stay together.
A path is (section, option), or (section, name, option) in the sections whose tables have names.
"""

import dataclasses
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from headgate.config.problems import ConfigError, Problem, shown
from headgate.config.settings import NAMED, SECTIONS, dotted
from headgate.errors_in_words import file_error
from headgate.model.policy import Option
from headgate.model.text import closest

Paths = tuple[str, ...]

_ENVIRONMENT_PREFIX = "HEADGATE_"
_NO_FILE = (
    "Correct the path, or begin with every option and its default: "
    "headgate config --reference > headgate.toml"
)
_LEVELS = "__"  # absent from variables such as HEADGATE_PORT, which Kubernetes sets for a Service


class Given(NamedTuple):
    """A value as written; `is_text` marks the environment, where everything is text."""

    value: Any
    origin: str
    is_text: bool = False


def read_file(file: Path) -> str:
    """Return the text of the file. Raises ConfigError when it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        text, expected_file = f"{file}: {file_error(error)}", "a readable TOML file in UTF-8"
        problem = Problem("--config", text, expected_file, _NO_FILE)
        raise ConfigError(str(file), [problem]) from None


def from_toml(file: Path, text: str, problems: list[Problem]) -> dict[Paths, Given]:
    """Return the values of the file's sections. Raises ConfigError when it is not TOML at all."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(file), [_toml_problem(file, text, str(error))]) from None
    lines = line_numbers(text)
    given = {}
    for path, value in _walk(tree, problems):
        line = lines.get(path) or lines.get(path[:-1]) or lines.get(path[:1])
        given[path] = Given(value, f"{file.name}:{line}" if line else file.name)
    return given


_TWICE = re.compile(r"Cannot .*line (\d+), column")


def _toml_problem(file: Path, text: str, why: str) -> Problem:
    """Describe the error of a text; `why` is the message of tomllib."""
    twice = _TWICE.match(why)  # "Cannot declare ('a',) twice", "Cannot overwrite a value"
    if twice is None:
        return Problem(file.name, why, "TOML 1.0")
    number, lines = int(twice[1]), text.split("\n")
    *before, name = (_name_in(line) for line in lines[:number])
    same = [at for at, other in enumerate(before, 1) if other == name]
    before_in = f", first in line {same[-1]}" if same else ""
    given = f"it is given twice{before_in}"
    return Problem(name, given, "one occurrence", "Merge the two.", f"{file.name}:{number}")


def _name_in(line: str) -> str:
    """Return the section or the option of a line, without the value, which may be a secret."""
    line = line.strip()
    return line if line.startswith("[") else line.partition("=")[0].strip()


def from_environment(
    environ: Mapping[str, str], given: Mapping[Paths, Given], problems: list[Problem]
) -> dict[Paths, Given]:
    """Return the values of `HEADGATE_<SECTION>__<OPTION>` and of
    `HEADGATE_<SECTION>__<NAME>__<OPTION>`.

    Args:
        environ: The environment.
        given: The file's values. Variables take no dashes: `main_backfill` means `main-backfill`
            if the file has that.
        problems: Takes a problem for each variable that means nothing.
    """
    names = {path[:2] for path in given}
    dashed: dict[tuple[str, str], list[str]] = {}
    for section, name in names:
        dashed.setdefault((section, re.sub(r"\W", "_", name).lower()), []).append(name)
    values: dict[Paths, Given] = {}
    for variable in sorted(environ):
        if not variable.startswith(_ENVIRONMENT_PREFIX) or _LEVELS not in variable:
            continue
        section, *rest = variable.removeprefix(_ENVIRONMENT_PREFIX).lower().split(_LEVELS)
        path: Paths
        if section == "topics":
            allowed_place = "topics in the file only: their names do not fit into a variable's"
            problems.append(Problem(variable, "a topic from the environment", allowed_place))
            continue
        if section in SECTIONS and len(rest) == 1:
            path = (section, rest[0])
        elif section in NAMED and len(rest) == 2:
            alike = dashed.get((section, rest[0]), [])
            is_unique = (section, rest[0]) not in names and len(alike) == 1
            path = (section, alike[0] if is_unique else rest[0], rest[1])
        else:
            problems.append(_unknown_variable(variable, section))
            continue
        values[path] = Given(environ[variable], variable, is_text=True)
    return values


def line_numbers(text: str) -> dict[Paths, int]:
    """Return the line of each table header and key, by path; tomllib does not return lines.

    Lines inside multi-line values may add paths that do not exist. This is harmless: only paths
    that tomllib returned are looked up, and the first line wins.
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
            parts = _parts(key[1])
            for count in range(1, len(parts) + 1):  # of a dotted key, also the tables that it makes
                lines.setdefault(table + parts[:count], number)
    return lines


def _parts(dotted_key: str) -> Paths:
    parts = re.findall(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w\-]+))\s*""", dotted_key)
    return tuple(double or single or bare for double, single, bare in parts)


def _walk(tree: Mapping[str, Any], problems: list[Problem]) -> Iterator[tuple[Paths, Any]]:
    sections = [*SECTIONS, *NAMED]
    for section, table in tree.items():
        if section not in sections:
            fix = closest(section, sections)
            names = "" if fix else f"one of {', '.join(sections)}"
            problems.append(Problem(section, "unknown section", names, fix))
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
            wanted = f"a table: [{section}.NAME]"
            problems.append(Problem(dotted((section, name)), shown(table), wanted))


def _unknown_variable(variable: str, section: str) -> Problem:
    forms = "HEADGATE_<SECTION>__<OPTION> or HEADGATE_<SECTION>__<NAME>__<OPTION>"
    fix = closest(section, [*SECTIONS, *NAMED])
    return Problem(variable, "no such section or option", forms, fix)


class BadValueError(Exception):
    """A value that an option does not take; its text says which values are allowed."""


def convert(option: Option, value: Any, *, is_text: bool) -> Any:
    """Return the value in the option's type.

    Args:
        option: The option.
        value: The value as TOML or the environment gives it.
        is_text: Whether it comes from the environment, where everything is text and a list is
            separated by commas.

    Raises:
        BadValueError: The option does not take the value.
    """
    kind, is_list = _kind_of(option)
    if not is_list:
        return _single(option, kind, value, is_text=is_text)
    if isinstance(value, str):
        # one value needs no brackets in TOML either, and brokers come as "a:9092,b:9092" anywhere
        value = _listed(value)
    if not isinstance(value, list):
        raise BadValueError(expected(option))
    return tuple(_single(option, kind, each, is_text=is_text) for each in value)


def expected(option: Option) -> str:
    """Return the values that the option takes, in words."""
    kind, is_list = _kind_of(option)
    if get_origin(kind) is Literal:
        words = " or ".join(shown(each) for each in get_args(kind))
    elif dataclasses.is_dataclass(kind):
        words = f"a table such as {option.about.example}"
    elif kind is int:
        words = f"an integer from {option.about.minimum} to {option.about.maximum}"
    else:
        words = "true or false" if kind is bool else "text"
    return f"a list of {words}" if is_list else words


def allowed(option: Option) -> Sequence[str]:
    """Return the values of an option that takes one of a few; else nothing."""
    kind, _ = _kind_of(option)
    return get_args(kind) if get_origin(kind) is Literal else ()


def similar_value(option: Option, value: Any) -> str:
    """Return `Did you mean "..."?` with the most similar allowed value, or an empty text."""
    choices = [str(each) for each in allowed(option)]
    given = value if isinstance(value, list) else [each.strip() for each in str(value).split(",")]
    wrong = [each for each in given if isinstance(each, str) and each not in choices]
    return closest(wrong[0], choices) if wrong else ""


def _kind_of(option: Option) -> tuple[Any, bool]:
    """Return the type of a value, without None, and whether the option takes a list of them."""
    kind: Any = option.kind
    if get_origin(kind) in (Union, UnionType):  # `Literal[...] | None` is a Union before 3.14
        kind = next(each for each in get_args(kind) if each is not NoneType)
    return (get_args(kind)[0], True) if get_origin(kind) is tuple else (kind, False)


def _listed(text: str) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            return list(tomllib.loads(f"list = {text}")["list"])
        except tomllib.TOMLDecodeError as error:
            raise BadValueError(f"a TOML list ({error})") from None
    return [each.strip() for each in text.split(",") if each.strip()]


def _single(option: Option, kind: Any, value: Any, *, is_text: bool) -> Any:
    if is_text and isinstance(value, str):
        value = _parsed(kind, value)
    if not _fits(option, kind, value):
        raise BadValueError(expected(option))
    return kind(**value) if isinstance(value, dict) else value


def _parsed(kind: Any, text: str) -> Any:
    """Parse a value of the environment; text that does not fit the type stays text."""
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    if kind is int:
        with suppress(ValueError):
            return int(text)  # like TOML, takes 10_000
    return text


def _fits(option: Option, kind: Any, value: Any) -> bool:
    if kind is bool:
        return isinstance(value, bool)
    if kind is int:
        minimum, maximum = option.about.minimum, option.about.maximum
        return (
            isinstance(value, int)
            and not isinstance(value, bool)
            and (minimum is None or value >= minimum)
            and (maximum is None or value <= maximum)
        )
    if dataclasses.is_dataclass(kind):  # a small table of texts, all of them required
        return (
            isinstance(value, dict)
            and value.keys() == {each.name for each in dataclasses.fields(kind)}
            and all(isinstance(each, str) for each in value.values())
        )
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    return isinstance(value, str)
