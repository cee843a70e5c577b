"""Completion for bash 4 or newer; it needs nothing else."""

from headgate.core.command_tree.tree import Argument, Command, Kind

_HEAD = """\
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
_TAIL = """\
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
    """The script."""
    function = f"_{root.name.replace('-', '_')}"
    every = list(root.every())
    commands = "|".join(f"'{command.path}'" for command in every[1:])
    head = _HEAD.format(program=root.name, function=function, commands=commands)
    values = [
        line
        for command in every
        for one in command.arguments
        for line in _value(function, command, one)
    ]
    places = [line for command in every for line in _place(command)]
    middle = ["    esac", '    case "$path" in']
    return head + "\n".join([*values, *middle, *places]) + "\n" + _TAIL.format(
        program=root.name, function=function
    )  # fmt: skip


def _value(function: str, command: Command, argument: Argument) -> list[str]:
    """What may stand behind an option that takes a value."""
    if not (argument.names and argument.value):
        return []
    heads = "|".join(f"'{command.path} {name}'" for name in argument.names)
    if argument.choices:
        words = f"compgen -W '{' '.join(argument.choices)}' -- \"$current\""
        does = f"mapfile -t COMPREPLY < <({words}); return"
    elif argument.kind in _FLAG:
        does = f'{function}_files {_FLAG[argument.kind]} "$current"; return'
    else:
        does = "return"
    return [f"        {heads}) {does} ;;"]


def _place(command: Command) -> list[str]:
    """What may stand elsewhere in the command."""
    words = [below.name for below in command.below]
    files = ""
    for argument in command.arguments:
        words += argument.names or argument.choices
        if not argument.names and argument.kind in _FLAG:
            files = _FLAG[argument.kind]
    return [f"        '{command.path}') words='{' '.join(words)}' files='{files}' ;;"]
