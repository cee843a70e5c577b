"""How a job ends early: with a sentence for the person who started it."""

OK, FAILED, USAGE = 0, 1, 2


class SayingError(Exception):
    """An error whose text is a sentence that says it all."""


class JobError(Exception):
    """Ends a job. The text names what to do; exit_code is FAILED or USAGE."""

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def in_words(error: BaseException) -> str:
    """What an error says, and what it is: a TimeoutError of its own says nothing."""
    name, text = type(error).__name__, str(error).strip()
    if isinstance(error, JobError | SayingError):
        return text
    if text in ("", name, f"{name}:"):
        return "nothing came in time" if isinstance(error, TimeoutError) else name
    return text if text.startswith(name) else f"{name}: {text}"


def reason_of(error: Exception) -> str:
    """The line of an error of Spark's or of its JVM that says why, without the stack around it."""
    lines = str(error).splitlines()
    causes = [line for line in lines if line.startswith("Caused by: ")]
    # py4j begins with the name of the call, and goes on with ": " and what Java said
    said = [line.removeprefix(": ") for line in lines if line.startswith(": ")] or lines
    return causes[-1].removeprefix("Caused by: ") if causes else "".join(said[:1])
