"""`python -m headgate` is the command `headgate`."""

import sys

from headgate.cli import main

if __name__ == "__main__":
    sys.exit(main())
