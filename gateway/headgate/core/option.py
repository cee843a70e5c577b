"""Declarations of options: the default, the bounds and the sentence that documents one.

Settings classes annotate their fields with `about`. The loader, the reference file, the tables in
docs/reference/options.md and the error texts all read the same declaration.
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
    """Documentation and bounds of an option.

    Args:
        sentence: The description of the option, for the reference.
        minimum: The lower bound of a number, inclusive.
        maximum: The upper bound of a number, inclusive.
        example: TOML text that is shown if there is no default.
        derived: The rule for a value that is not set; empty if the default is just a value.
        secret: Whether to hide the value; `<name>_file` may then name a file that contains it.
    """

    sentence: str
    minimum: int | None
    maximum: int | None
    example: str
    derived: str
    secret: bool


class Option(NamedTuple):
    """An option of a section; `default` is `dataclasses.MISSING` if it is required."""

    name: str
    kind: object
    default: object
    about: About

    @property
    def required(self) -> bool:
        """Return whether there is no default."""
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
    """Return the options that a settings dataclass declares, by name, in order."""
    return _declared(cast(Hashable, section))


@cache  # about ten classes, one of which has thousands of sections
def _declared(section: type[Section]) -> Mapping[str, Option]:
    hints = get_type_hints(section, include_extras=True)
    options = {}
    for each in dataclasses.fields(section):
        kind, *extras = get_args(hints[each.name]) or (None,)
        if extras and isinstance(extras[-1], About):
            options[each.name] = Option(each.name, kind, each.default, extras[-1])
    return options
