"""`python -m pullqueue`: the command, for those who have no `pullqueue` on their path."""

from __future__ import annotations

import sys

from pullqueue.cli import main

sys.exit(main())
