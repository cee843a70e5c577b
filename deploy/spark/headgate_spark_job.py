"""The command `headgate-spark` as a script for spark-submit."""

import sys

from headgate_spark.cli import main

sys.exit(main())
