"""Writes Kubernetes' schemas as kubeconform wants them: FOLDER/VERSION/KIND.json, strict ones."""

import json
import sys
from importlib.resources import files
from pathlib import Path

# The oldest with all that the chart can use (a hook that sleeps), and the newest of the package.
VERSIONS = ("1.30.0", "1.37.0")


def write(folder: Path) -> None:
    """Without names of their own, by which references would lead to the network."""
    for version in VERSIONS:
        (folder / version).mkdir(parents=True, exist_ok=True)
        source = (
            files("kubernetes_validate") / "kubernetes-json-schema" / f"v{version}-local-strict"
        )
        for found in source.iterdir():
            text = found.read_text().replace('"/api/_definitions.json#', '"_definitions.json#')
            schema = json.loads(text)
            schema.pop("$id", None)
            (folder / version / found.name).write_text(json.dumps(schema))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
