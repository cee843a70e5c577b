"""The images of deploy/image, built and run without a daemon: by buildah, in a chroot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from headgate.devstack.child import Child
from support.deploy.deployment import DOCKERFILE
from support.root import ROOT

BASE = "docker.io/library/debian:bookworm-slim"
# Authorities that this machine trusts besides the usual ones: a proxy's, say.
_TRUSTED = Path("/usr/local/share/ca-certificates")
# The base's own settings leave these out, too.
_LEFT_OUT = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "var/cache/apt",
    "var/lib/apt/lists",
)
# A container whose root cannot be written, and whose user is nobody: what a runtime does for
# `read_only: true`, `tmpfs: /tmp:exec` and the image's USER and WORKDIR, and hosts' names.
_CONTAINER = """
root=$1 etc=$2 state=$3 user=$4 folder=$5; shift 5
mount --bind "$root" "$root"
mount --bind "$etc" "$root/etc/headgate"
mount --bind "$state" "$root/var/lib/headgate"
touch "$root/etc/hosts"
mount --bind /etc/hosts "$root/etc/hosts"
mount -o remount,ro,bind "$root"
mount -t tmpfs tmpfs "$root/tmp"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot --userspec="$user" "$root" sh -euc 'cd "$0"; exec "$@"' "$folder" "$@"
"""


class Image:
    """One image: its settings, and its files at `root`."""

    def __init__(self, settings: Mapping[str, object], root: Path) -> None:
        self._settings = settings
        self.root = root

    @property
    def megabytes(self) -> int:
        """Of all files."""
        done = subprocess.run(["du", "-sm", self.root], capture_output=True, text=True, check=True)
        return int(done.stdout.split()[0])

    def words(self, name: str) -> list[str]:
        """Entrypoint, Cmd or Env, or the command of its Healthcheck."""
        found = self._settings[name]
        if isinstance(found, dict):
            found = found["Test"][1:]
        assert isinstance(found, list)
        return [str(one) for one in found]

    def command(self, etc: Path, state: Path, command: Sequence[str]) -> list[str]:
        """What runs a command in it. etc, state: for /etc/headgate and /var/lib/headgate."""
        user, folder = (str(self._settings[name]) for name in ("User", "WorkingDir"))
        started = ["unshare", "--mount", "sh", "-euc", _CONTAINER, "sh"]
        return [*started, str(self.root), str(etc), str(state), user, folder, *command]

    def environ(self, more: Mapping[str, str]) -> dict[str, str]:
        """The image's own variables, and more."""
        return {**dict(one.split("=", 1) for one in self.words("Env")), **more}

    def run(self, etc: Path, state: Path, command: Sequence[str], **more: str) -> str:
        """What a command prints that ends well."""
        done = subprocess.run(
            self.command(etc, state, command),
            env=self.environ(more),
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, etc: Path, state: Path, log: Path, **more: str) -> Child:
        """The image as it is started by itself."""
        command = [*self.words("Entrypoint"), *self.words("Cmd")]
        return Child(
            "image", self.command(etc, state, command), log, environment=self.environ(more)
        )


class Builder:
    """buildah in a folder; HEADGATE_IMAGES keeps one, with its layers, for the next run."""

    def __init__(self, folder: Path) -> None:
        missing = [name for name in ("buildah", "unshare") if shutil.which(name) is None]
        if missing or os.geteuid() != 0:
            pytest.skip(f"the image is built by root with buildah (Debian: buildah); no {missing}")
        kept = Path(os.environ.get("HEADGATE_IMAGES", folder))
        for driver in ("overlay", "vfs"):  # the second copies every layer: 40 GB
            where = ["--root", kept / driver, "--runroot", kept / "run", "--storage-driver", driver]
            self._buildah = ["buildah", *map(str, where)]
            if not subprocess.run(
                [*self._buildah, "images"], capture_output=True, check=False
            ).returncode:
                break
        self._folder = folder

    def build(self, target: str) -> Image:
        """Build a stage as it stands, with the network of this machine."""
        self._base()
        options = ["--isolation", "chroot", "--network", "host", "--layers", "--format", "docker"]
        if any(_TRUSTED.glob("*.crt")):
            options += ["--volume", f"{_TRUSTED}:{_TRUSTED}:ro"]
        name = f"localhost/headgate-{target}"
        self._run("bud", "--pull-never", *options, "--target", target, "-t", name,
                  "-f", str(DOCKERFILE), str(ROOT))  # fmt: skip
        settings = json.loads(self._run("inspect", "--type", "image", name))["Docker"]["config"]
        container = self._run("from", "--pull-never", name)
        return Image(settings, Path(self._run("mount", container)))

    def close(self) -> None:
        """Unmount what was built."""
        self._run("rm", "--all")

    def _base(self) -> None:
        """Pulled, or made of Debian's packages where no registry of images is reached."""
        if BASE in self._run("images", "--format", "{{.Name}}:{{.Tag}}").splitlines():
            return
        if subprocess.run(
            [*self._buildah, "pull", BASE], capture_output=True, check=False
        ).returncode:
            if shutil.which("debootstrap") is None:
                pytest.skip(f"no {BASE}, and no debootstrap (Debian: debootstrap) to make it with")
            root = self._folder / "base"
            subprocess.run(["debootstrap", "--variant=minbase", "bookworm", root], check=True)
            for name in _LEFT_OUT:
                shutil.rmtree(root / name)
                (root / name).mkdir()
            container = self._run("from", "scratch")
            self._run("add", container, str(root), "/")
            self._run("commit", container, BASE)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._buildah, *arguments], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout.strip()
