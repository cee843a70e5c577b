"""Folders and files on the command line."""

import argparse
import re
from pathlib import Path

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def local_path(text: str) -> Path:
    """Read a path. A URI would be taken for a folder below the one that the command runs in."""
    if _URI.match(text):
        raise argparse.ArgumentTypeError(
            f"{text} is a URI: give a path on a local or shared file system, such as NFS, and copy "
            "what is there to HDFS or an object store afterwards"
        )
    return Path(text)
