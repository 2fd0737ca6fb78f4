"""The web console at `/console/`: pages and forms.

It calls the functions that the control routes call, and reads the charts and the charts' times from
the emulator. Every form contains the token that only pages of this server know.
"""
