"""Completion for zsh: to be sourced, or kept as a file in a folder of fpath."""

import re
from collections.abc import Iterator

from headgate.core.command_tree.tree import Argument, Command, Kind

_DOES = {Kind.FILE: "_files", Kind.FOLDER: "_files -/", Kind.TEXT: ""}
_TAIL = """\
if [[ ${{funcstack[1]}} == {function} ]]; then
    {function} "$@"
else
    compdef {function} {program}
fi
"""


def zsh_completion(root: Command) -> str:
    """The script."""
    head = f"#compdef {root.name}\n# Made by `{root.name} completion zsh`.\n"
    functions = "".join("\n".join(_function(command)) + "\n" for command in root.every())
    return head + functions + _TAIL.format(function=_name(root), program=root.name)


def _name(command: Command) -> str:
    return "_" + "_".join(word.replace("-", "_") for word in command.words)


def _function(command: Command) -> Iterator[str]:
    arguments = [spec for one in command.arguments for spec in _specs(one)]
    yield f"{_name(command)}() {{"
    if not command.below:
        yield from _call("_arguments -s", arguments)
        yield "}"
        return
    yield "    local curcontext=$curcontext state line"
    yield "    typeset -A opt_args"
    yield from _call(
        "_arguments -C", [*arguments, "'1:command:->command'", "'*::argument:->argument'"]
    )
    yield "    case $state in"
    yield "        command)"
    yield "            local -a commands=("
    for below in command.below:
        yield f"                '{below.name}:{_quoted(below.purpose)}'"
    yield "            )"
    yield "            _describe command commands"
    yield "            ;;"
    yield "        argument)"
    yield "            case $line[1] in"
    for below in command.below:
        yield f"                {below.name}) {_name(below)} ;;"
    yield "            esac"
    yield "            ;;"
    yield "    esac"
    yield "}"


def _call(name: str, arguments: list[str]) -> Iterator[str]:
    yield " \\\n        ".join([f"    {name}", *arguments])


def _specs(argument: Argument) -> Iterator[str]:
    """As `_arguments` takes them: one for each name of an option, or one for a position."""
    does = f"({' '.join(argument.choices)})" if argument.choices else _DOES[argument.kind]
    value = f":{_quoted(argument.value)}:{does}"
    star = "*" if argument.repeats else ""
    if not argument.names:
        yield f"'{star}{value}'"
    for name in argument.names:
        text = _quoted(argument.text)
        yield f"'{star}{name}[{text}]{value if argument.value else ''}'"


def _quoted(text: str) -> str:
    """Within a spec in single quotes."""
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")
