"""`headgate completion`: completion scripts for shells, from the parsers."""

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headgate.commands.command_line import OK, add_command

if TYPE_CHECKING:
    from headgate.commands.command_line import Subparsers

PURPOSE = "print a shell's completion script"
EXAMPLES = """  source <({program} completion bash)           in ~/.bashrc
  source <({program} completion zsh)            in ~/.zshrc, after compinit
  {program} completion fish > ~/.config/fish/completions/{program}.fish

exit codes: 0 printed, 2 usage"""


class Kind(StrEnum):
    """Kind of a value, as far as a shell can complete it."""

    TEXT = "text"
    FILE = "file"
    FOLDER = "folder"


class Argument(NamedTuple):
    """An option with its names, or, without any, a positional argument.

    `value` names its value in one word, empty if it takes none; `text` is its help.
    """

    names: tuple[str, ...]
    value: str
    text: str
    choices: tuple[str, ...] = ()
    kind: Kind = Kind.TEXT
    is_required: bool = False
    repeats: bool = False


class Command(NamedTuple):
    """A command with its arguments.

    Attributes:
        words: The words of the command line, the program first.
        purpose: The description, one sentence.
        text: The text below the help, such as examples.
        arguments: The options and positional arguments.
        below: The sub-commands.
    """

    words: tuple[str, ...]
    purpose: str
    text: str
    arguments: tuple[Argument, ...]
    below: tuple["Command", ...] = ()

    @property
    def name(self) -> str:
        """Return the last word."""
        return self.words[-1]

    @property
    def path(self) -> str:
        """Return the words behind the program, each behind a space."""
        return "".join(f" {word}" for word in self.words[1:])

    def every(self) -> Iterator["Command"]:
        """Yield this command and all below it."""
        yield self
        for command in self.below:
            yield from command.every()


def command_of(parser: argparse.ArgumentParser) -> Command:
    """Return the commands of a parser, without those that have no line in the help.

    An argument of type Path is a file, or a folder if its metavar is DIR.
    """
    arguments, below = list[Argument](), list[Command]()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            names = {choice.dest for choice in action._choices_actions}
            below += [command_of(each) for name, each in action.choices.items() if name in names]
        else:
            arguments.append(_argument(action))
    text = (parser.epilog or "").strip("\n").rstrip()
    words = tuple(parser.prog.split())
    return Command(words, _sentence(parser.description or ""), text, tuple(arguments), tuple(below))


def _argument(action: argparse.Action) -> Argument:
    choices = tuple(map(str, action.choices or ()))
    given = action.metavar if isinstance(action.metavar, str) else ""
    value = given or ", ".join(choices) or ("" if action.option_strings else action.dest)
    is_flag = action.nargs == 0
    if action.option_strings:
        value = "" if is_flag else value or action.dest.upper()
    paths = Kind.FOLDER if action.metavar == "DIR" else Kind.FILE
    text = (action.help or "").replace("%(default)s", str(action.default))
    return Argument(
        names=tuple(action.option_strings),
        value=value,
        text=text,
        choices=choices,
        kind=Kind.TEXT if action.type is not Path else paths,
        is_required=action.required and bool(action.option_strings),
        repeats=action.nargs in ("+", "*") or isinstance(action, argparse._AppendAction),
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}." if text else ""


_BASH_HEAD = """\
# Completion of {program} for bash, made by `{program} completion bash`.
{function}_files() {{
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen "$1" -- "$2")
}}
{function}() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
    local path='' words='' files='' index
    # `--option=value` comes as three words
    [[ $current == '=' ]] && current=''
    [[ $before == '=' ]] && before=${{COMP_WORDS[COMP_CWORD - 2]}}
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "$path ${{COMP_WORDS[index]}}" in
            {commands}) path+=" ${{COMP_WORDS[index]}}" ;;
        esac
    done
    case "$path $before" in
"""
_BASH_TAIL = """\
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    if [[ -n $files && $current != -* ]]; then
        local found=("${{COMPREPLY[@]}}")
        {function}_files "$files" "$current"
        COMPREPLY=("${{found[@]}}" "${{COMPREPLY[@]}}")
    fi
}}
complete -F {function} {program}
"""
_FLAG = {Kind.FILE: "-f", Kind.FOLDER: "-d"}


def bash_completion(root: Command) -> str:
    """Return the script for bash 4 or newer."""
    function = f"_{root.name.replace('-', '_')}"
    every = list(root.every())
    commands = "|".join(f"'{command.path}'" for command in every[1:])
    head = _BASH_HEAD.format(program=root.name, function=function, commands=commands)
    values = [
        line
        for command in every
        for argument in command.arguments
        for line in _bash_value(function, command, argument)
    ]
    words = [line for command in every for line in _bash_words(command)]
    middle = ["    esac", '    case "$path" in']
    return (
        head
        + "\n".join([*values, *middle, *words])
        + "\n"
        + _BASH_TAIL.format(program=root.name, function=function)
    )


def _bash_value(function: str, command: Command, argument: Argument) -> list[str]:
    """Return the completion of an option's value."""
    if not (argument.names and argument.value):
        return []
    heads = "|".join(f"'{command.path} {name}'" for name in argument.names)
    if argument.choices:
        words = f"compgen -W '{' '.join(argument.choices)}' -- \"$current\""
        action = f"mapfile -t COMPREPLY < <({words}); return"
    elif argument.kind in _FLAG:
        action = f'{function}_files {_FLAG[argument.kind]} "$current"; return'
    else:
        action = "return"
    return [f"        {heads}) {action} ;;"]


def _bash_words(command: Command) -> list[str]:
    """Return the completion of everything else in the command."""
    words = [below.name for below in command.below]
    files = ""
    for argument in command.arguments:
        words += argument.names or argument.choices
        if not argument.names and argument.kind in _FLAG:
            files = _FLAG[argument.kind]
    return [f"        '{command.path}') words='{' '.join(words)}' files='{files}' ;;"]


_ZSH_ACTIONS = {Kind.FILE: "_files", Kind.FOLDER: "_files -/", Kind.TEXT: ""}
_ZSH_TAIL = """\
if [[ ${{funcstack[1]}} == {function} ]]; then
    {function} "$@"
else
    compdef {function} {program}
fi
"""


def zsh_completion(root: Command) -> str:
    """Return the script for zsh: to be sourced, or kept as a file in a folder of fpath."""
    head = f"#compdef {root.name}\n# Made by `{root.name} completion zsh`.\n"
    functions = "".join("\n".join(_zsh_function(command)) + "\n" for command in root.every())
    return head + functions + _ZSH_TAIL.format(function=_zsh_function_name(root), program=root.name)


def _zsh_function_name(command: Command) -> str:
    return "_" + "_".join(word.replace("-", "_") for word in command.words)


def _zsh_function(command: Command) -> Iterator[str]:
    arguments = [spec for each in command.arguments for spec in _zsh_specs(each)]
    yield f"{_zsh_function_name(command)}() {{"
    if not command.below:
        yield from _zsh_call("_arguments -s", arguments)
        yield "}"
        return
    yield "    local curcontext=$curcontext state line"
    yield "    typeset -A opt_args"
    yield from _zsh_call(
        "_arguments -C", [*arguments, "'1:command:->command'", "'*::argument:->argument'"]
    )
    yield "    case $state in"
    yield "        command)"
    yield "            local -a commands=("
    for below in command.below:
        yield f"                '{below.name}:{_zsh_quoted(below.purpose)}'"
    yield "            )"
    yield "            _describe command commands"
    yield "            ;;"
    yield "        argument)"
    yield "            case $line[1] in"
    for below in command.below:
        yield f"                {below.name}) {_zsh_function_name(below)} ;;"
    yield "            esac"
    yield "            ;;"
    yield "    esac"
    yield "}"


def _zsh_call(name: str, arguments: list[str]) -> Iterator[str]:
    yield " \\\n        ".join([f"    {name}", *arguments])


def _zsh_specs(argument: Argument) -> Iterator[str]:
    """Yield specs for `_arguments`: one for each name of an option, or one for a position."""
    action = f"({' '.join(argument.choices)})" if argument.choices else _ZSH_ACTIONS[argument.kind]
    value = f":{_zsh_quoted(argument.value)}:{action}"
    star = "*" if argument.repeats else ""
    if not argument.names:
        yield f"'{star}{value}'"
    for name in argument.names:
        text = _zsh_quoted(argument.text)
        yield f"'{star}{name}[{text}]{value if argument.value else ''}'"


def _zsh_quoted(text: str) -> str:
    """Quote text within a spec in single quotes."""
    return re.sub(r"([\[\]:\\])", r"\\\1", text).replace("'", "'\\''")


_FISH_HEAD = """\
# Completion of {program} for fish, made by `{program} completion fish`.
function {function}_at
    set -l path ''
    for word in (commandline -opc)[2..]
        switch "$path $word"
            case {commands}
                set path "$path $word"
        end
    end
    test "$path" = "$argv[1]"
end
complete -c {program} -f
"""


def fish_completion(root: Command) -> str:
    """Return the script for fish 3 or newer."""
    function = f"__{root.name.replace('-', '_')}"
    every = list(root.every())
    commands = " ".join(f"'{command.path}'" for command in every[1:])
    head = _FISH_HEAD.format(program=root.name, function=function, commands=commands)
    return head + "".join(
        f"complete -c {root.name} -n \"{function}_at '{command.path}'\" {rest}\n"
        for command in every
        for rest in _fish_lines(command)
    )


def _fish_lines(command: Command) -> Iterator[str]:
    for below in command.below:
        yield f"-a {below.name} -d '{_fish_quoted(below.purpose)}'"
    for argument in command.arguments:
        yield _fish_line(argument)


def _fish_line(argument: Argument) -> str:
    names = " ".join(_fish_name(name) for name in argument.names)
    text = f" -d '{_fish_quoted(argument.text)}'" if argument.text else ""
    if argument.names and not argument.value:
        return f"{names}{text}"
    if argument.choices:
        action = f"-x -a '{' '.join(argument.choices)}'"
    elif argument.kind is Kind.FOLDER:
        action = "-x -a '(__fish_complete_directories)'"
    elif argument.kind is Kind.FILE:
        action = "-r -F"
    else:
        action = "-x"
    return (
        f"{names} {action}{text}".strip()
        if names
        else f"{action.replace('-x ', '').replace('-r ', '')}{text}"
    )


def _fish_name(name: str) -> str:
    return f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"


def _fish_quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


SHELLS: Mapping[str, Callable[[Command], str]] = {
    "bash": bash_completion,
    "zsh": zsh_completion,
    "fish": fish_completion,
}


def register_completion(subparsers: "Subparsers") -> None:
    """Add `completion` to the commands."""
    examples = EXAMPLES.format(program="headgate")
    parser = add_command(subparsers, "completion", PURPOSE, examples)
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def run_completion(args: argparse.Namespace) -> int:
    """Print the script; `args.program` makes the parser of all commands."""
    sys.stdout.write(SHELLS[args.shell](command_of(args.program())))
    return OK
