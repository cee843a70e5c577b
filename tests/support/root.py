"""Where the checkout is, so that no test counts the folders above itself."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
