"""The commands of a program with their arguments, read from its argparse parser."""

import argparse
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What a value is, as far as a shell can help with it."""

    TEXT = "text"
    FILE = "file"
    FOLDER = "folder"


class Argument(NamedTuple):
    """An option with its names, or, without any, a positional argument.

    value: what it takes, in one word; "" = it takes none.  text: what it is for.
    """

    names: tuple[str, ...]
    value: str
    text: str
    choices: tuple[str, ...] = ()
    kind: Kind = Kind.TEXT
    is_required: bool = False
    repeats: bool = False


class Command(NamedTuple):
    """words: of the command line, the program first.  purpose: one sentence.  text: for people,
    line by line, as it stands below the help.  below: those that go on from here."""

    words: tuple[str, ...]
    purpose: str
    text: str
    arguments: tuple[Argument, ...]
    below: tuple["Command", ...] = ()

    @property
    def name(self) -> str:
        """The last word."""
        return self.words[-1]

    @property
    def path(self) -> str:
        """The words behind the program, each behind a space."""
        return "".join(f" {word}" for word in self.words[1:])

    def every(self) -> Iterator["Command"]:
        """This one, and all below it."""
        yield self
        for command in self.below:
            yield from command.every()


def command_of(parser: argparse.ArgumentParser, path: type) -> Command:
    """The tree from here on, without what has no line in the help: that is not for people.

    path: the type of arguments that are files, or folders where their metavar is DIR.
    """
    arguments, below = list[Argument](), list[Command]()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            names = {one.dest for one in action._choices_actions}
            below += [
                command_of(one, path) for name, one in action.choices.items() if name in names
            ]
        else:
            arguments.append(_argument(action, path))
    text = (parser.epilog or "").strip("\n").rstrip()
    words = tuple(parser.prog.split())
    return Command(words, _sentence(parser.description or ""), text, tuple(arguments), tuple(below))


def _argument(action: argparse.Action, path: type) -> Argument:
    choices = tuple(map(str, action.choices or ()))
    given = action.metavar if isinstance(action.metavar, str) else ""
    value = given or ", ".join(choices) or ("" if action.option_strings else action.dest)
    is_flag = action.nargs == 0
    if action.option_strings:
        value = "" if is_flag else value or action.dest.upper()
    text = (action.help or "").replace("%(default)s", str(action.default))
    return Argument(
        names=tuple(action.option_strings),
        value=value,
        text=text,
        choices=choices,
        kind=_kind(action, path),
        is_required=action.required and bool(action.option_strings),
        repeats=action.nargs in ("+", "*") or isinstance(action, argparse._AppendAction),
    )


def _kind(action: argparse.Action, path: type) -> Kind:
    if action.type is not path:
        return Kind.TEXT
    return Kind.FOLDER if action.metavar == "DIR" else Kind.FILE


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}." if text else ""
