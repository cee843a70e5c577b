"""How an option is declared: its default, its bounds and the sentence that documents it.

Settings classes annotate their fields with `about`; the loader, the reference file, the tables in
docs/reference/options.md and the error texts all read the same declaration: none can go stale.
"""

import dataclasses
from collections.abc import Hashable, Mapping
from dataclasses import MISSING
from functools import cache
from typing import ClassVar, NamedTuple, Protocol, cast, get_args, get_type_hints


class Section(Protocol):
    """A dataclass of settings."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[object]]]


class About(NamedTuple):
    """What a declaration says beside type and default.

    sentence: what the option does, for the reference.  minimum, maximum: inclusive bounds of a
    number. example: TOML text that is shown where there is no default.  derived: how the value is
    found when it is not set; empty where the default is just a value.  secret: never shown, and
    `<name>_file` may name a file that holds it."""

    sentence: str
    minimum: int | None
    maximum: int | None
    example: str
    derived: str
    secret: bool


class Option(NamedTuple):
    """One option of a section. default: `dataclasses.MISSING` where the option is required."""

    name: str
    kind: object
    default: object
    about: About

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING


def about(
    sentence: str,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    example: str = "",
    derived: str = "",
    secret: bool = False,
) -> About:
    """Make a field of a settings dataclass an option: `Annotated[int, about("...")]`."""
    return About(sentence, minimum, maximum, example, derived, secret)


def options_of(section: type[Section]) -> Mapping[str, Option]:
    """The options that a settings dataclass declares, by name, in order."""
    return _declared(cast(Hashable, section))


@cache  # there are some ten such classes, and thousands of sections of one of them
def _declared(section: type[Section]) -> Mapping[str, Option]:
    hints = get_type_hints(section, include_extras=True)
    found = {}
    for each in dataclasses.fields(section):
        kind, *extras = get_args(hints[each.name]) or (None,)
        if extras and isinstance(extras[-1], About):
            found[each.name] = Option(each.name, kind, each.default, extras[-1])
    return found
