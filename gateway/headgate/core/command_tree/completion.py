"""The completion script of a program for one shell."""

from collections.abc import Callable, Mapping

from headgate.core.command_tree.bash import bash_completion
from headgate.core.command_tree.fish import fish_completion
from headgate.core.command_tree.tree import Command
from headgate.core.command_tree.zsh import zsh_completion

SHELLS: Mapping[str, Callable[[Command], str]] = {
    "bash": bash_completion,
    "zsh": zsh_completion,
    "fish": fish_completion,
}
PURPOSE = "print a shell's completion script"
EXAMPLES = """  source <({program} completion bash)           in ~/.bashrc
  source <({program} completion zsh)            in ~/.zshrc, after compinit
  {program} completion fish > ~/.config/fish/completions/{program}.fish"""
