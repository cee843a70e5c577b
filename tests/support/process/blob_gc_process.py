"""NOT the product: `headgate blobs gc` that stops itself (SIGSTOP) in the midst of the removal.

python blob_gc_process.py CONFIG REMOVED   REMOVED: how many blobs are gone then
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count

from headgate import cli
from headgate.blobs.blobs import FileBlobs
from headgate.model.oversize import BlobName

_remove = FileBlobs.delete
_numbers = count()


def _stopping(blobs: FileBlobs, name: BlobName, unless_after_s: float) -> bool:
    if next(_numbers) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGSTOP)
    return _remove(blobs, name, unless_after_s)


if __name__ == "__main__":
    FileBlobs.delete = _stopping  # type: ignore[method-assign]
    sys.exit(cli.main(["blobs", "gc", "--config", sys.argv[1]]))
