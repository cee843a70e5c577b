"""Loading of the configuration: `load` reads file and environment and returns `Settings`.

It raises a ConfigError with all problems. The schemas that topics name are part of the
configuration: their text is active, not a file that may change. `headgate serve` keeps a copy of
the schemas that it accepted for its workers, as it does with the file itself.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from headgate.config.checks import contradictions, with_origins
from headgate.config.problems import DEFAULT, ConfigError, Origins, Problem, shown
from headgate.config.settings import NAMED, SECTIONS, Settings, dotted
from headgate.config.topic_checks import producer_contradictions
from headgate.config.values import (
    BadValueError,
    Given,
    Paths,
    convert,
    expected,
    from_environment,
    from_toml,
    read_file,
    similar_value,
)
from headgate.errors_in_words import file_error
from headgate.model.policy import Option, TopicPolicy, options_of
from headgate.model.schema import BadSchemaError, Schema, schema_of
from headgate.model.text import STARS, closest

_FILE_SUFFIX = "_file"
_RELOADED = ("topics", "producers")
_MAX_SCHEMA_BYTES = 1_048_576  # each large event takes the text along to the helper process


class Loaded(NamedTuple):
    """The settings, and the origin of each option's value by its dotted name."""

    settings: Settings
    origins: Origins


class _Draft(NamedTuple):
    """Problems and origins, collected while sections are built."""

    problems: list[Problem]
    origins: Origins


def load(
    file: Path,
    environ: Mapping[str, str],
    accepted: Path | None = None,
    text: str | None = None,
) -> Settings:
    """Return the effective settings; `load_with_origins` says more."""
    return load_with_origins(file, environ, accepted, text).settings


def load_with_origins(
    file: Path,
    environ: Mapping[str, str],
    accepted: Path | None = None,
    text: str | None = None,
) -> Loaded:
    """Return the effective settings and the origin of each value.

    Args:
        file: The TOML file.
        environ: Environment variables, which override the file.
        accepted: The folder of `keep_schemas`, whose copies are read instead of the schema files.
        text: The file's text; None reads the file.

    Raises:
        ConfigError: The configuration cannot be used.
    """
    draft = _Draft([], Origins())
    given = from_toml(file, read_file(file) if text is None else text, draft.problems)
    given |= from_environment(environ, given, draft.problems)
    settings = _assemble(given, draft)
    while given:  # one by one: freed in one go, tens of thousands hold up all other threads
        given.popitem()
    if not draft.problems:
        settings = _with_derived(settings, draft.origins)
        topics = tuple(_with_schema(each, accepted, draft.problems) for each in settings.topics)
        settings = dataclasses.replace(settings, topics=topics)
        draft.problems.extend(contradictions(settings, draft.origins))
    else:  # these do not depend on other options
        draft.problems.extend(with_origins(producer_contradictions(settings), draft.origins))
    if draft.problems:
        raise ConfigError(str(file), draft.problems)
    return Loaded(settings, draft.origins)


def keep_schemas(topics: Iterable[TopicPolicy], folder: Path) -> None:
    """Write a copy of each schema in force into the folder."""
    for policy in topics:
        if policy.schema_file is not None and policy.schema is not None:
            copy = _schema_copy(folder, policy.schema_file)
            fresh = copy.with_suffix(".new")
            fresh.write_bytes(policy.schema.text)
            fresh.replace(copy)


def reloadable(old: Settings, new: Settings) -> list[str]:
    """Return the dotted names of options whose change needs a restart; empty if none does.

    Only topics and producers are reloaded. A cluster that was added or removed is named as
    `clusters.NAME`.
    """
    changed = []
    for section in dataclasses.fields(Settings):
        if section.name not in _RELOADED and section.name != "clusters":
            before, after = getattr(old, section.name), getattr(new, section.name)
            changed += _differing(section.name, before, after)
    for name in sorted({*old.clusters, *new.clusters}):
        if name in old.clusters and name in new.clusters:
            changed += _differing(f"clusters.{name}", old.clusters[name], new.clusters[name])
        else:
            changed.append(f"clusters.{name}")
    return changed


class ReloadChanges(NamedTuple):
    """Dotted names of the topics and producers that a reload changes, without any value.

    Attributes:
        added: New topics and producers.
        removed: Topics and producers that are gone.
        changed: Changed options; `topics` alone stands for their order.
    """

    added: list[str]
    removed: list[str]
    changed: list[str]


def reload_changes(old: Settings, new: Settings) -> ReloadChanges:
    """Return what a reload changes."""
    changes = ReloadChanges([], [], [])
    old_topics, new_topics = (
        {policy.pattern: policy for policy in each.topics} for each in (old, new)
    )
    sections: list[tuple[str, Mapping[str, Any], Mapping[str, Any]]] = [
        ("topics", old_topics, new_topics),
        ("producers", old.producers, new.producers),
    ]
    for section, before, after in sections:
        changes.added.extend(f"{section}.{name}" for name in after if name not in before)
        changes.removed.extend(f"{section}.{name}" for name in before if name not in after)
        for name in after:
            if name in before and after[name] != before[name]:
                differing = _differing(f"{section}.{name}", before[name], after[name])
                changes.changed.extend(
                    option for option in differing if not option.endswith(".schema")
                )
                changes.changed.extend(_of_schema(before[name], after[name]))
    stay = [name for name in old_topics if name in new_topics]
    if stay != [name for name in new_topics if name in old_topics]:  # the first match counts
        changes.changed.append("topics")
    return changes


def _of_schema(before: Any, after: Any) -> list[str]:
    """Return `topics.NAME.schema_file` if that file has the same name and other contents."""
    if not isinstance(after, TopicPolicy) or before.schema_file != after.schema_file:
        return []
    is_same = (before.schema and before.schema.text) == (after.schema and after.schema.text)
    return [] if is_same else [f"topics.{after.pattern}.schema_file"]


def _assemble(given: Mapping[Paths, Given], draft: _Draft) -> Settings:
    written: dict[Paths, dict[str, Given]] = {}  # the options of each section that has any
    for path, each in given.items():
        written.setdefault(path[:-1], {})[path[-1]] = each
    values: dict[str, Any] = {
        name: _section(kind, (name,), written, draft) for name, kind in SECTIONS.items()
    }
    named: dict[str, dict[str, Any]] = {name: {} for name in NAMED}
    for section, name in dict.fromkeys(path[:2] for path in given if path[0] in NAMED):
        more = {"pattern": name} if section == "topics" else {}
        path = (section, name)
        named[section][name] = _section(NAMED[section], path, written, draft, **more)
    values |= named
    values["topics"] = tuple(named["topics"].values())
    return Settings(**values)


def _section(
    kind: type[Any],
    path: Paths,
    sections: Mapping[Paths, Mapping[str, Given]],
    draft: _Draft,
    **more: Any,
) -> Any:
    """Build a section's dataclass. A bad or missing value is a problem and keeps the default."""
    options = options_of(kind)
    values = dict(more)
    written = sections.get(path, {})
    for name in written:
        if name not in options and not _is_secret_file(name, options):
            draft.problems.append(_unknown_option(path, name, written[name], options))
    for option in options.values():
        values[option.name] = _value(option, path, written, draft)
    return kind(**values)


def _value(option: Option, path: Paths, written: Mapping[str, Given], draft: _Draft) -> Any:
    """Return the option's value, or after a problem its default: the load then fails anyway."""
    name = dotted((*path, option.name))
    given = _given(option, path, written, draft)
    if given is None:
        if option.required:
            example = f"Example: {option.name} = {option.about.example}"
            draft.problems.append(Problem(name, "missing", expected(option), example))
        return option.default
    draft.origins[name] = given.origin
    if option.about.secret and _is_masked(given.value):
        text = f"{STARS} stands for a hidden value, as `headgate config` shows secrets"
        fix = "Put the secret itself in, or remove the option."
        draft.problems.append(Problem(name, text, "the secret itself", fix, given.origin))
        return option.default
    try:
        return convert(option, given.value, is_text=given.is_text)
    except BadValueError as error:
        value = shown(given.value, secret=option.about.secret)
        hint = "" if option.about.secret else similar_value(option, given.value)
        draft.problems.append(Problem(name, value, str(error), hint, given.origin))
        return option.default


def _is_masked(value: Any) -> bool:
    """Return whether a value was copied from a configuration that hides its secrets."""
    texts = value if isinstance(value, list) else [value]
    return any(text == STARS or f"{STARS}@" in str(text) for text in texts)


def _given(
    option: Option, path: Paths, written: Mapping[str, Given], draft: _Draft
) -> Given | None:
    """Return the value as written; a secret may come from the file that `<option>_file` names."""
    direct = written.get(option.name)
    by_file = written.get(option.name + _FILE_SUFFIX) if option.about.secret else None
    if by_file is None:
        return direct
    name = dotted((*path, option.name + _FILE_SUFFIX))
    if direct is not None and direct.is_text == by_file.is_text:
        fix = f"Remove one of {option.name} and {option.name}{_FILE_SUFFIX}."
        text = "set beside the value itself"
        draft.problems.append(Problem(name, text, "one of the two", fix, by_file.origin))
        return direct
    if direct is not None and direct.is_text:
        return direct  # the environment overrides the file
    return _read_secret(name, by_file, draft)


def _read_secret(name: str, by_file: Given, draft: _Draft) -> Given | None:
    try:
        text = Path(str(by_file.value)).read_text(encoding="utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        text = f"{shown(by_file.value)}: {file_error(error)}"
        problem = Problem(name, text, "a readable text file", origin=by_file.origin)
        draft.problems.append(problem)
        return None
    return Given(text, f"{by_file.origin}, file {by_file.value}", is_text=True)


def _is_secret_file(name: str, options: Mapping[str, Option]) -> bool:
    option = options.get(name.removesuffix(_FILE_SUFFIX))
    return name.endswith(_FILE_SUFFIX) and option is not None and option.about.secret


def _unknown_option(path: Paths, name: str, given: Given, options: Mapping[str, Option]) -> Problem:
    allowed = list(options)
    allowed += [each + _FILE_SUFFIX for each in options if options[each].about.secret]
    near = closest(name, allowed)
    return Problem(
        dotted((*path, name)),
        "unknown option",
        "" if near else f"one of {', '.join(allowed)}",
        near,
        given.origin,
    )


def _with_derived(settings: Settings, origins: Origins) -> Settings:
    """Set the options that follow from others, and their origins.

    A topic's cluster stays empty unless there is exactly one candidate.
    """
    longest_ms = max((each.delivery_timeout_ms for each in settings.clusters.values()), default=0)
    if longest_ms and origins["redis.quarantine_ms"] == DEFAULT:
        origins["redis.quarantine_ms"] = "derived: 2 x the largest delivery_timeout_ms"
        redis = dataclasses.replace(settings.redis, quarantine_ms=2 * longest_ms)
        settings = dataclasses.replace(settings, redis=redis)
    ingest = [name for name, each in settings.clusters.items() if each.tier == "ingest"]
    if len(ingest) != 1:
        return settings
    topics = []
    for policy in settings.topics:
        if not policy.cluster:
            option = dotted(("topics", policy.pattern, "cluster"))
            origins[option] = "derived: the only cluster of tier ingest"
            policy = dataclasses.replace(policy, cluster=ingest[0])
        topics.append(policy)
    return dataclasses.replace(settings, topics=tuple(topics))


def _schema_copy(folder: Path, path: str) -> Path:
    return folder / f"schema-{sha256(path.encode()).hexdigest()[:32]}.json"


def _with_schema(
    policy: TopicPolicy, accepted: Path | None, problems: list[Problem]
) -> TopicPolicy:
    """Return the policy with the schema that it names, from the folder of copies if given."""
    path = policy.schema_file
    if path is None:
        return policy
    option = dotted(("topics", policy.pattern, "schema_file"))
    try:
        text = (Path(path) if accepted is None else _schema_copy(accepted, path)).read_bytes()
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
    if len(text) > _MAX_SCHEMA_BYTES:
        raise BadSchemaError(f"{len(text)} bytes are more than {_MAX_SCHEMA_BYTES}")
    return schema_of(text)


def _differing(prefix: str, before: object, after: object) -> list[str]:
    names = [each.name for each in dataclasses.fields(before)]  # type: ignore[arg-type]
    return [f"{prefix}.{name}" for name in names if getattr(before, name) != getattr(after, name)]
