"""Ports of the development stack: nobody is given one that another process is about to use."""

from __future__ import annotations

import subprocess
import sys

from headgate.devstack.ports import claim, prefer
from support.process.stack import free_port

CHILD = """
import sys
from headgate.devstack.ports import prefer
print(prefer({}), flush=True)
sys.stdin.read()
"""


def test_a_claim_holds_until_it_is_closed() -> None:
    port = free_port()
    mark = claim(port)
    assert mark is not None
    assert claim(port) is None
    mark.close()
    again = claim(port)
    assert again is not None
    again.close()


def test_of_two_processes_that_prefer_a_port_one_gets_it() -> None:
    """Though nothing listens on it yet. Asked again, who has it is told the same."""
    port = free_port()
    command = [sys.executable, "-c", CHILD.format(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert int(other.stdout.readline()) == port
        assert prefer(port) != port
        other.kill()
    assert [prefer(port), prefer(port)] == [port, port]


def test_a_port_is_given_once() -> None:
    given = [free_port() for _ in range(50)]
    assert len({*given}) == 50
