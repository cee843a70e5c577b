"""Entry point of `python -m headgate_spark`, the same as the command `headgate-spark`."""

import sys

from headgate_spark.cli import main

if __name__ == "__main__":
    sys.exit(main())
