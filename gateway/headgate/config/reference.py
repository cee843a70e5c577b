"""Options written out: the reference of all options, and the effective values of a configuration.

`make docs` writes deploy/config/reference.toml and docs/reference/options.md from the declarations,
and a test compares them, so neither can rot.
"""

import dataclasses
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from headgate.config.load import Loaded
from headgate.config.problems import toml_text
from headgate.config.settings import NAMED, SECTIONS, dotted
from headgate.config.values import allowed, expected
from headgate.model.policy import Option, options_of
from headgate.model.text import STARS, masked, without_secrets

EXAMPLE_NAMES = {"clusters": "main", "producers": "checkout", "topics": "orders.*"}
_WIDTH = 100
_HASHES = "token_sha256"  # not secret, but no reader needs them
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
    """Return the text of reference.toml."""
    parts = [_HEAD]
    for path, section, options in _sections():
        note = _NOTES.get(path[0]) or _first_line(section)
        parts.append("\n".join([*_comment(note), f"[{dotted(path)}]", *_lines(options)]) + "\n")
    return "\n".join(parts)


def reference_markdown() -> str:
    """Return a table for each section, with option, default, allowed values and meaning."""
    parts = []
    for path, section, options in _sections():
        title = path[0] if len(path) == 1 else f"{path[0]}.NAME"
        rows = [f"## [{title}]", "", _NOTES.get(path[0]) or _first_line(section), ""]
        rows += ["| option | default | allowed | meaning |", "|---|---|---|---|"]
        rows += [_row(option) for option in options]
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def _first_line(section: type[Any]) -> str:
    """Return the first line of a section's docstring."""
    return (section.__doc__ or "").strip().splitlines()[0]


def _sections() -> Iterator[tuple[tuple[str, ...], type[Any], list[Option]]]:
    for name, section in SECTIONS.items():
        yield (name,), section, list(options_of(section).values())
    for name, section in NAMED.items():
        yield (name, EXAMPLE_NAMES[name]), section, list(options_of(section).values())


def _lines(options: list[Option]) -> Iterator[str]:
    for option in options:
        derived = f" Default: {option.about.derived}." if option.about.derived else ""
        yield from _comment(f"{option.about.sentence}{_range(option)}{derived}")
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
        return f" {_unit(option)}, {option.about.minimum} to {option.about.maximum}."
    return f" Allowed: {expected(option)}." if allowed(option) else ""


def _unit(option: Option) -> str:
    """Return the unit of a number, by the end of the option's name."""
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
        taken = f"{_unit(option).lower()}, {option.about.minimum} to {option.about.maximum}"
    return f"| {name} | {default} | {taken} | {option.about.sentence} |"


class Effective(NamedTuple):
    """An option in force. A thousand topics have 40,000, of which a page shows some."""

    section: str
    option: Option
    given: Any
    origin: str

    @property
    def name(self) -> str:
        """Return the option's name, without its section."""
        return self.option.name

    @property
    def value(self) -> Any:
        """Return the value as JSON has it; None if it is not set.

        Secrets and hashes of tokens are masked.
        """
        if self.name == _HASHES:
            return [STARS] * len(self.given)
        if self.option.about.secret and self.given is not None:
            given = self.given
            return masked(given) if isinstance(given, str) else [masked(each) for each in given]
        return _plain(self.given)


def effective(loaded: Loaded) -> Iterator[Effective]:
    """Yield every option in force, section by section."""
    settings, origins = loaded
    sections: list[tuple[tuple[str, ...], Any]] = [
        ((name,), getattr(settings, name)) for name in SECTIONS
    ]
    for name in NAMED:
        tables = getattr(settings, name)
        if name == "topics":
            tables = {policy.pattern: policy for policy in tables}
        sections += [((name, table), values) for table, values in tables.items()]
    for path, values in sections:
        section = dotted(path)
        for option in options_of(type(values)).values():  # whose names need no quotes
            origin = origins[f"{section}.{option.name}"]
            yield Effective(section, option, getattr(values, option.name), origin)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
