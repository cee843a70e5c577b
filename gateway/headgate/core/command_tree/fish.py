"""Completion for fish 3 or newer."""

from collections.abc import Iterator

from headgate.core.command_tree.tree import Argument, Command, Kind

_HEAD = """\
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
    """The script."""
    function = f"__{root.name.replace('-', '_')}"
    every = list(root.every())
    commands = " ".join(f"'{command.path}'" for command in every[1:])
    head = _HEAD.format(program=root.name, function=function, commands=commands)
    return head + "".join(
        f"complete -c {root.name} -n \"{function}_at '{command.path}'\" {rest}\n"
        for command in every
        for rest in _lines(command)
    )


def _lines(command: Command) -> Iterator[str]:
    for below in command.below:
        yield f"-a {below.name} -d '{_quoted(below.purpose)}'"
    for argument in command.arguments:
        yield _line(argument)


def _line(argument: Argument) -> str:
    names = " ".join(_name(name) for name in argument.names)
    text = f" -d '{_quoted(argument.text)}'" if argument.text else ""
    if argument.names and not argument.value:
        return f"{names}{text}"
    if argument.choices:
        does = f"-x -a '{' '.join(argument.choices)}'"
    elif argument.kind is Kind.FOLDER:
        does = "-x -a '(__fish_complete_directories)'"
    elif argument.kind is Kind.FILE:
        does = "-r -F"
    else:
        does = "-x"
    return (
        f"{names} {does}{text}".strip()
        if names
        else f"{does.replace('-x ', '').replace('-r ', '')}{text}"
    )


def _name(name: str) -> str:
    return f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
