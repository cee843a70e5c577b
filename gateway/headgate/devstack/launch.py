"""A launcher that becomes another program, which the kernel ends with its parent.

It is run as a file, never imported. A separate program replaces Popen's `preexec_fn`, which is
unsafe (and warns) in a process with threads. Arguments: signal number, the parent's pid, the
command.
"""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h; kept over execve

if __name__ == "__main__":
    number, parent, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before the call above
        sys.exit(1)
    os.execvp(command[0], command)
