"""Reads the schemas that topics name: what is in force is their text, not a file that may change.

`headgate serve` keeps a copy of what it accepted for its workers, as it does with the
configuration itself.
"""

import dataclasses
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from headgate.config.errors import Problem, shown
from headgate.config.names import dotted
from headgate.core.schema import BadSchemaError, Schema, schema_of
from headgate.core.topics.policy import TopicPolicy
from headgate.errors_in_words import file_error

_MAX_BYTES = 1_048_576  # the text goes along with each large event to the helper process


def read_schemas(
    topics: Iterable[TopicPolicy], accepted: Path | None, problems: list[Problem]
) -> tuple[TopicPolicy, ...]:
    """The policies with the schemas that they name.

    accepted: the folder of `keep_schemas`, whose copies are read instead of the files.
    """
    read = []
    for policy in topics:
        path = policy.schema_file
        read.append(policy if path is None else _read(policy, path, accepted, problems))
    return tuple(read)


def keep_schemas(topics: Iterable[TopicPolicy], folder: Path) -> None:
    """Write a copy of each schema in force."""
    for policy in topics:
        if policy.schema_file is not None and policy.schema is not None:
            copy = _copy(folder, policy.schema_file)
            fresh = copy.with_suffix(".new")
            fresh.write_bytes(policy.schema.text)
            fresh.replace(copy)


def _copy(folder: Path, path: str) -> Path:
    return folder / f"schema-{sha256(path.encode()).hexdigest()[:32]}.json"


def _read(
    policy: TopicPolicy, path: str, accepted: Path | None, problems: list[Problem]
) -> TopicPolicy:
    option = dotted(("topics", policy.pattern, "schema_file"))
    try:
        text = (Path(path) if accepted is None else _copy(accepted, path)).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = file_error(error) if isinstance(error, OSError) else str(error)
        problems.append(Problem(option, f"{shown(path)}: {why}", "a readable file"))
        return policy
    try:
        return dataclasses.replace(policy, schema=_compiled(text))
    except BadSchemaError as error:
        expected = "a JSON Schema (2020-12) whose references stay inside the file"
        problems.append(Problem(option, f"{shown(path)}: {error}", expected))
        return policy


def _compiled(text: bytes) -> Schema:
    if len(text) > _MAX_BYTES:
        raise BadSchemaError(f"{len(text)} bytes are more than {_MAX_BYTES}")
    return schema_of(text)
