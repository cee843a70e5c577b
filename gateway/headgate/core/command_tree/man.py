"""One manual page of a whole program, in man(7)."""

import re
from collections.abc import Iterator

from headgate.core.command_tree.tree import Argument, Command


def man_page(root: Command, version: str) -> str:
    """The page. Without a date: the same sources make the same page."""
    return "\n".join(_lines(root, version)) + "\n"


def _lines(root: Command, version: str) -> Iterator[str]:
    yield f'.TH "{root.name.upper()}" "1" "" "headgate {version}" "Headgate"'
    yield ".SH NAME"
    yield rf"{_text(root.name)} \- {_text(root.purpose.rstrip('.'))}"
    yield ".SH SYNOPSIS"
    yield from _synopsis(root)
    yield ".SH OPTIONS"
    yield from _arguments(root)
    yield from _words(root.text)
    yield ".SH COMMANDS"
    for command in list(root.every())[1:]:
        if command.below:  # it does nothing by itself
            continue
        yield f'.SS "{_text(" ".join(command.words))}"'
        if command.purpose:
            yield _text(command.purpose)
            yield ".PP"
        yield from _synopsis(command)
        yield from _arguments(command)
        yield from _words(command.text)


def _synopsis(command: Command) -> Iterator[str]:
    parts = [rf"\fB{_text(' '.join(command.words))}\fR"]
    if command.below:
        parts.append(r"\fICOMMAND\fR")
    for argument in _told(command):
        shown = _shown(argument)
        parts.append(shown if argument.is_required or not argument.names else f"[{shown}]")
    yield " ".join(parts)


def _arguments(command: Command) -> Iterator[str]:
    for argument in _told(command):
        yield ".TP"
        yield _shown(argument)
        required = " (required)" if argument.is_required else ""
        yield _text(f"{argument.text}{required}") or r"\&"


def _told(command: Command) -> list[Argument]:
    """`--help` is the same everywhere: it stands with the program."""
    is_root = len(command.words) == 1
    return [one for one in command.arguments if is_root or "--help" not in one.names]


def _shown(argument: Argument) -> str:
    value = rf"\fI{_text(argument.value)}\fR" if argument.value else ""
    if not argument.names:
        return value
    names = ", ".join(rf"\fB{_text(name)}\fR" for name in argument.names)
    return f"{names} {value}".rstrip()


def _words(text: str) -> Iterator[str]:
    """What stands below the help, line by line."""
    if text:
        yield ".PP"
        yield ".nf"
        for line in text.splitlines():
            yield _text(line) or r"\&"
        yield ".fi"


def _text(text: str) -> str:
    """Nothing in it is a request or an escape; hyphens can be copied."""
    found = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", found, flags=re.MULTILINE)
