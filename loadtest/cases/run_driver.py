"""Starts the load generator as a process of its own and reads its report."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson

from plan import Plan

DRIVER = Path(__file__).resolve().parents[1] / "driver.py"
GRACE_S = 120.0  # priming, the client's timeout, settling of the log


class DriverFailed(Exception):
    """The generator ended badly, or its answers and the log do not agree."""


def start(plan: Plan) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(DRIVER), *plan.flags()]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes], plan: Plan) -> dict[str, Any]:
    """The report; raises DriverFailed, also where an answer and the log contradict."""
    try:
        output, _ = process.communicate(timeout=plan.warm_up_s + plan.seconds + GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise DriverFailed(f"the driver hung: {plan}") from None
    report: dict[str, Any] = orjson.loads(output) if output else {}
    if process.returncode != 0:
        said = f"log {report.get('log')}, ends {report.get('outcomes')}"
        raise DriverFailed(f"exit code {process.returncode}, {said}: {plan}")
    return report


def run(plan: Plan) -> dict[str, Any]:
    return finish(start(plan), plan)
