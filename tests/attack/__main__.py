"""`make attack`."""

import sys

from tests.attack.table import main

sys.exit(main())
