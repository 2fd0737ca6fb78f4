"""The emulator's own routes, under `/_emulator/`: what the command and the web console use.

`operations` tells what an operation is, `table` lists them all, `routes` serves them, `openapi`
describes them, `origins` refuses what comes from elsewhere.
"""

PREFIX = "/_emulator"
"""Where all paths of the emulator's own begin."""
