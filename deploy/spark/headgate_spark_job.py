"""What spark-submit is given: the command `headgate-spark` as a script."""

import sys

from headgate_spark.cli import main

sys.exit(main())
