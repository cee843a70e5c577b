"""Runs a program with the system calls and the memory that a unit of deploy/systemd allows.

`restrained.py UNIT COMMAND...`: what systemd would do for SystemCallFilter, SystemCallErrorNumber,
MemoryDenyWriteExecute and NoNewPrivileges; it needs systemd-analyze, libseccomp and Linux 6.3.
"""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LIBRARY = "libseccomp.so.2"
_UNITS = Path(__file__).parents[3] / "deploy" / "systemd"
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NO_NEW_PRIVILEGES, _DENY_WRITE_EXECUTE = 38, 65  # of prctl
# What systemd allows by itself.
_ALWAYS = ("execve", "exit", "exit_group", "getrlimit", "rt_sigreturn", "time")


def _lines(name: str, option: str) -> Iterator[str]:
    for file in (_UNITS / name, _UNITS / "headgate-.service.d" / "common.conf"):
        for line in file.read_text().splitlines():
            if line.startswith(f"{option}="):
                yield line.partition("=")[2]


def _calls(group: str) -> set[str]:
    listed = subprocess.run(
        ["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True
    )
    found: set[str] = set()
    for line in map(str.strip, listed.stdout.splitlines()[1:]):
        if line.startswith("@"):
            found |= _calls(line)
        elif line and not line.startswith("#"):
            found.add(line)
    return found


def allowed(name: str) -> set[str]:
    """The system calls of a unit's filter."""
    found = set(_ALWAYS)
    for line in _lines(name, "SystemCallFilter"):
        for group in line.removeprefix("~").split():
            found = found - _calls(group) if line.startswith("~") else found | _calls(group)
    return found


def restrain(name: str) -> None:
    """From now on, this process and all that it starts. Raises OSError."""
    libc, seccomp = ctypes.CDLL(None, use_errno=True), ctypes.CDLL(LIBRARY)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(seccomp.seccomp_init(_REFUSE))
    for call in allowed(name):
        number = seccomp.seccomp_syscall_resolve_name(call.encode())
        if number >= 0:  # others are of other machines
            seccomp.seccomp_rule_add_array(rules, _ALLOW, number, 0, None)
    wanted = [_NO_NEW_PRIVILEGES]
    wanted += [_DENY_WRITE_EXECUTE for line in _lines(name, "MemoryDenyWriteExecute")]
    for option in wanted:
        if libc.prctl(option, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {option}")
    if seccomp.seccomp_load(rules) != 0:
        raise OSError(errno.EPERM, "seccomp_load")


if __name__ == "__main__":
    restrain(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
