"""How a job ends early: with a sentence for the person who started it."""

OK, FAILED, USAGE = 0, 1, 2


class JobError(Exception):
    """Ends a job. The text names what to do; exit_code is FAILED or USAGE."""

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def reason_of(error: Exception) -> str:
    """The line of an error of Spark's or of its JVM that says why, without the stack around it."""
    lines = str(error).splitlines()
    causes = [line for line in lines if line.startswith("Caused by: ")]
    # py4j begins with the name of the call, and goes on with ": " and what Java said
    said = [line.removeprefix(": ") for line in lines if line.startswith(": ")] or lines
    return causes[-1].removeprefix("Caused by: ") if causes else "".join(said[:1])
