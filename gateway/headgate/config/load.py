"""`load`: file and environment -> `Settings`, or a ConfigError with everything that is wrong."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headgate.config.checks import contradictions, settle_derived
from headgate.config.convert import BadValueError, convert, expected
from headgate.config.errors import ConfigError, Problem, shown
from headgate.config.names import NAMED, SECTIONS, dotted
from headgate.config.origins import Origins
from headgate.config.schemas import read_schemas
from headgate.config.settings import Settings
from headgate.config.sources import Given, Paths, from_environment, from_toml, read_file
from headgate.core.option import Option, options_of
from headgate.core.spelling import closest
from headgate.errors_in_words import file_error

_FILE_SUFFIX = "_file"


class Loaded(NamedTuple):
    """Settings, and for every option by its dotted name where its value is from."""

    settings: Settings
    origins: Origins


class _Draft(NamedTuple):
    """What is gathered while sections are built."""

    problems: list[Problem]
    origins: Origins


def load(
    file: Path,
    environ: Mapping[str, str],
    accepted: Path | None = None,
    text: str | None = None,
) -> Settings:
    """The effective settings. accepted: see `read_schemas`.  text: what the file says, None = look.

    Raises ConfigError.
    """
    return load_with_origins(file, environ, accepted, text).settings


def load_with_origins(
    file: Path,
    environ: Mapping[str, str],
    accepted: Path | None = None,
    text: str | None = None,
) -> Loaded:
    """The effective settings and where each value is from. Raises ConfigError."""
    draft = _Draft([], Origins())
    given = from_toml(file, read_file(file) if text is None else text, draft.problems)
    given |= from_environment(environ, given, draft.problems)
    settings = _assemble(given, draft)
    while given:  # one by one: freed in one go, tens of thousands hold up all other threads
        given.popitem()
    if not draft.problems:
        settings = settle_derived(settings, draft.origins)
        topics = read_schemas(settings.topics, accepted, draft.problems)
        settings = dataclasses.replace(settings, topics=topics)
        draft.problems.extend(contradictions(settings, draft.origins))
    if draft.problems:
        raise ConfigError(str(file), draft.problems)
    return Loaded(settings, draft.origins)


def _assemble(given: Mapping[Paths, Given], draft: _Draft) -> Settings:
    written: dict[Paths, dict[str, Given]] = {}  # the options of each section that has any
    for path, each in given.items():
        written.setdefault(path[:-1], {})[path[-1]] = each
    values: dict[str, Any] = {
        name: _section(kind, (name,), written, draft) for name, kind in SECTIONS.items()
    }
    named: dict[str, dict[str, Any]] = {name: {} for name in NAMED}
    for section, name in dict.fromkeys(path[:2] for path in given if path[0] in NAMED):
        more = {"pattern": name} if section == "topics" else {}
        path = (section, name)
        named[section][name] = _section(NAMED[section], path, written, draft, **more)
    values |= named
    values["topics"] = tuple(named["topics"].values())
    return Settings(**values)


def _section(
    kind: type[Any],
    path: Paths,
    sections: Mapping[Paths, Mapping[str, Given]],
    draft: _Draft,
    **more: Any,
) -> Any:
    """One section as its dataclass. A bad or missing value is a problem and keeps the default."""
    options = options_of(kind)
    values = dict(more)
    written = sections.get(path, {})
    for name in written:
        if name not in options and not _is_secret_file(name, options):
            draft.problems.append(_unknown_option(path, name, written[name], options))
    for option in options.values():
        values[option.name] = _value(option, path, written, draft)
    return kind(**values)


def _value(option: Option, path: Paths, written: Mapping[str, Given], draft: _Draft) -> Any:
    """The option's value; after a problem its default, which nobody sees: the load ends."""
    name = dotted((*path, option.name))
    given = _given(option, path, written, draft)
    if given is None:
        if option.required:
            example = f"Example: {option.name} = {option.about.example}"
            draft.problems.append(Problem(name, "missing", expected(option), example))
        return option.default
    draft.origins[name] = given.origin
    try:
        return convert(option, given.value, is_text=given.is_text)
    except BadValueError as error:
        found = shown(given.value, secret=option.about.secret)
        draft.problems.append(Problem(name, found, error.expected, origin=given.origin))
        return option.default


def _given(
    option: Option, path: Paths, written: Mapping[str, Given], draft: _Draft
) -> Given | None:
    """The option's value as written, a secret also from the file that `<option>_file` names."""
    direct = written.get(option.name)
    by_file = written.get(option.name + _FILE_SUFFIX) if option.about.secret else None
    if by_file is None:
        return direct
    name = dotted((*path, option.name + _FILE_SUFFIX))
    if direct is not None and direct.is_text == by_file.is_text:
        fix = f"Remove one of {option.name} and {option.name}{_FILE_SUFFIX}."
        wrong = Problem(name, "set beside the value itself", "one of the two", fix, by_file.origin)
        draft.problems.append(wrong)
        return direct
    if direct is not None and direct.is_text:
        return direct  # the environment goes over the file
    return _read_secret(name, by_file, draft)


def _read_secret(name: str, by_file: Given, draft: _Draft) -> Given | None:
    try:
        text = Path(str(by_file.value)).read_text(encoding="utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        text = f"{shown(by_file.value)}: {file_error(error)}"
        problem = Problem(name, text, "a readable text file", origin=by_file.origin)
        draft.problems.append(problem)
        return None
    return Given(text, f"{by_file.origin}, file {by_file.value}", is_text=True)


def _is_secret_file(name: str, options: Mapping[str, Option]) -> bool:
    option = options.get(name.removesuffix(_FILE_SUFFIX))
    return name.endswith(_FILE_SUFFIX) and option is not None and option.about.secret


def _unknown_option(path: Paths, name: str, given: Given, options: Mapping[str, Option]) -> Problem:
    allowed = list(options)
    allowed += [each + _FILE_SUFFIX for each in options if options[each].about.secret]
    return Problem(
        dotted((*path, name)),
        "unknown option",
        f"one of {', '.join(allowed)}",
        closest(name, allowed),
        given.origin,
    )
