"""The manual pages in deploy/man, from the parsers of the commands."""

import re
from collections.abc import Iterator

from headgate.commands.completion import Argument, Command


def man_page(root: Command, version: str) -> str:
    """Return the manual page in man(7), without a date: the same sources make the same page."""
    return "\n".join(_man_lines(root, version)) + "\n"


def _man_lines(root: Command, version: str) -> Iterator[str]:
    yield f'.TH "{root.name.upper()}" "1" "" "headgate {version}" "Headgate"'
    yield ".SH NAME"
    yield rf"{_man_escaped(root.name)} \- {_man_escaped(root.purpose.rstrip('.'))}"
    yield ".SH SYNOPSIS"
    yield from _man_synopsis(root)
    yield ".SH OPTIONS"
    yield from _man_arguments(root)
    yield from _man_text(root.text)
    yield ".SH COMMANDS"
    for command in list(root.every())[1:]:
        if command.below:  # it does nothing by itself
            continue
        yield f'.SS "{_man_escaped(" ".join(command.words))}"'
        if command.purpose:
            yield _man_escaped(command.purpose)
            yield ".PP"
        yield from _man_synopsis(command)
        yield from _man_arguments(command)
        yield from _man_text(command.text)


def _man_synopsis(command: Command) -> Iterator[str]:
    parts = [rf"\fB{_man_escaped(' '.join(command.words))}\fR"]
    if command.below:
        parts.append(r"\fICOMMAND\fR")
    for argument in _man_options(command):
        shown = _man_names(argument)
        parts.append(shown if argument.is_required or not argument.names else f"[{shown}]")
    yield " ".join(parts)


def _man_arguments(command: Command) -> Iterator[str]:
    for argument in _man_options(command):
        yield ".TP"
        yield _man_names(argument)
        required = " (required)" if argument.is_required else ""
        yield _man_escaped(f"{argument.text}{required}") or r"\&"


def _man_options(command: Command) -> list[Argument]:
    """Return the arguments to describe; `--help`, which is the same everywhere, only once."""
    is_root = len(command.words) == 1
    return [each for each in command.arguments if is_root or "--help" not in each.names]


def _man_names(argument: Argument) -> str:
    value = rf"\fI{_man_escaped(argument.value)}\fR" if argument.value else ""
    if not argument.names:
        return value
    names = ", ".join(rf"\fB{_man_escaped(name)}\fR" for name in argument.names)
    return f"{names} {value}".rstrip()


def _man_text(text: str) -> Iterator[str]:
    """Yield the text below the help, line by line."""
    if text:
        yield ".PP"
        yield ".nf"
        for line in text.splitlines():
            yield _man_escaped(line) or r"\&"
        yield ".fi"


def _man_escaped(text: str) -> str:
    """Escape requests and escapes; hyphens can be copied."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)
