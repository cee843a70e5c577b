"""What a running gateway may take over on SIGHUP: topics and producers, nothing else."""

import dataclasses

from headgate.config.settings import Settings

_RELOADED = ("topics", "producers")


def reloadable(old: Settings, new: Settings) -> list[str]:
    """The options whose change needs a restart, by dotted name; empty = take `new` over.

    A cluster that was added or removed is named as `clusters.NAME`.
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


def _differing(prefix: str, before: object, after: object) -> list[str]:
    names = [each.name for each in dataclasses.fields(before)]  # type: ignore[arg-type]
    return [f"{prefix}.{name}" for name in names if getattr(before, name) != getattr(after, name)]
