"""`python -m fitdoctor`."""

import sys

from fitdoctor.cli.main import main

sys.exit(main())
