"""Every option, written out: as deploy/config/reference.toml and as docs/reference/options.md.

`make docs` writes both from the declarations, and a test compares them, so neither can rot.
"""

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from headgate.config.load import Loaded
from headgate.config.problems import toml_text
from headgate.config.settings import NAMED, SECTIONS, dotted
from headgate.config.values import allowed, expected
from headgate.core.option import Option, options_of
from headgate.core.secrets import STARS, masked, without_secrets

EXAMPLE_NAMES = {"clusters": "main", "producers": "checkout", "topics": "orders.*"}
_WIDTH = 100
_UNITS = {
    "_events_per_s": "Events a second",
    "_bytes_per_s": "Bytes a second",
    "_ms": "Milliseconds",
    "_bytes": "Bytes",
    "_events": "Events",
    "_depth": "Levels",
    "port": "Port number",
    "workers": "Processes",
    "uploads": "Uploads",
}
_HEAD = """\
# Every option of Headgate with its default. Made by `headgate config --reference`.
#
# An option that is commented out has no default, or one that follows from others; the value is
# then an example.
# The environment goes over this file: HEADGATE_<SECTION>__<OPTION>, such as HEADGATE_HTTP__PORT,
# and HEADGATE_<SECTION>__<NAME>__<OPTION>, such as HEADGATE_CLUSTERS__MAIN__BOOTSTRAP_SERVERS
# (dashes of a name become underscores; lists are separated by commas; topics: in the file only).
# A secret may be in a file of its own: `<option>_file` names it, here or in the environment.
# SIGHUP reloads [producers] and [topics], and the files of certificates; everything else needs a
# restart.
"""
_NOTES = {
    "clusters": "One section for each cluster; at least one of tier ingest.",
    "producers": "One section for each producer.",
    "topics": "One section for each topic, or glob of topics (* = anything, ? = one character): "
    "the exact name goes first, then the glob with the longest text before its first wildcard. "
    "A topic that no section matches is answered unknown_topic.",
}


def reference_toml() -> str:
    """The text of reference.toml."""
    parts = [_HEAD]
    for path, section, options in _sections():
        note = _NOTES.get(path[0]) or first_line(section)
        parts.append("\n".join([*_comment(note), f"[{dotted(path)}]", *_lines(options)]) + "\n")
    return "\n".join(parts)


def reference_markdown() -> str:
    """One table for each section, with option, default, allowed values and meaning."""
    parts = []
    for path, section, options in _sections():
        title = path[0] if len(path) == 1 else f"{path[0]}.NAME"
        rows = [f"## [{title}]", "", _NOTES.get(path[0]) or first_line(section), ""]
        rows += ["| option | default | allowed | meaning |", "|---|---|---|---|"]
        rows += [_row(option) for option in options]
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def first_line(section: type[Any]) -> str:
    """The first line of a section's docstring."""
    return (section.__doc__ or "").strip().splitlines()[0]


def _sections() -> Iterator[tuple[tuple[str, ...], type[Any], list[Option]]]:
    for name, section in SECTIONS.items():
        yield (name,), section, list(options_of(section).values())
    for name, section in NAMED.items():
        yield (name, EXAMPLE_NAMES[name]), section, list(options_of(section).values())


def _lines(options: list[Option]) -> Iterator[str]:
    for option in options:
        yield from _comment(f"{option.about.sentence}{_range(option)}{_derived(option)}")
        if option.required:
            yield f"{option.name} = {option.about.example}  # required"
        elif option.default is None or option.about.derived:
            yield f"# {option.name} = {option.about.example or toml_text(option.default)}"
        else:
            yield f"{option.name} = {toml_text(option.default)}"
        if option.about.secret:
            yield f'# {option.name}_file = "/run/secrets/{option.name}"'


def _range(option: Option) -> str:
    if option.about.minimum is not None:
        return f" {unit(option)}, {option.about.minimum} to {option.about.maximum}."
    return f" Allowed: {expected(option)}." if allowed(option) else ""


def _derived(option: Option) -> str:
    return f" Default: {option.about.derived}." if option.about.derived else ""


def unit(option: Option) -> str:
    """The unit of a number, which the end of its name tells."""
    ends = (end for end in _UNITS if option.name.endswith(end))
    return next((_UNITS[end] for end in ends), "Number")


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")


def _row(option: Option) -> str:
    name = f"`{option.name}`"
    if option.about.secret:
        name += f", `{option.name}_file`"
    default = "required" if option.required else option.about.derived
    default = default or ("none" if option.default is None else f"`{toml_text(option.default)}`")
    if option.about.minimum is None:
        taken = expected(option)
    else:
        taken = f"{unit(option).lower()}, {option.about.minimum} to {option.about.maximum}"
    return f"| {name} | {default} | {taken} | {option.about.sentence} |"


# Every option in force with its value and where that is from, fit to be shown.


_HASHES = "token_sha256"  # no secrets, but nobody who reads here needs them


class Effective:
    """One option in force. A thousand topics have 40,000, of which a page shows some."""

    __slots__ = ("_given", "_option", "origin", "section")

    def __init__(self, section: str, option: Option, given: object, origin: str) -> None:
        self.section: Final = section
        self.origin: Final = origin
        self._option = option
        self._given = given

    @property
    def name(self) -> str:
        return self._option.name

    @property
    def value(self) -> Any:
        """As JSON has it, None = not set; no secret and no hash of one, whoever shows it."""
        value: Any = self._given
        if self.name == _HASHES:
            return [STARS] * len(value)
        if self._option.about.secret and value is not None:
            return masked(value) if isinstance(value, str) else [masked(each) for each in value]
        return _plain(value)


def effective(loaded: Loaded) -> Iterator[Effective]:
    """Every option in force, section by section."""
    settings, origins = loaded
    for name in SECTIONS:
        yield from _of_section((name,), getattr(settings, name), origins)
    for name in NAMED:
        tables = getattr(settings, name)
        if name == "topics":
            tables = {policy.pattern: policy for policy in tables}
        for table, values in tables.items():
            yield from _of_section((name, table), values, origins)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _of_section(
    path: tuple[str, ...], values: Any, origins: Mapping[str, str]
) -> Iterator[Effective]:
    section = dotted(path)
    for option in options_of(type(values)).values():  # whose names need no quotes
        given = getattr(values, option.name)
        yield Effective(section, option, given, origins[f"{section}.{option.name}"])
