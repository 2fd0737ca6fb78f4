"""The emulator's own routes, under `/_emulator/`: what the commands and the web console use.

`operations` registers handlers, `models` are the structs they take and return, `routes` serves
them, `openapi` describes them.
"""

PREFIX = "/_emulator"
"""How all paths of the emulator's own begin."""
