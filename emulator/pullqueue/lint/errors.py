"""What is wrong with a run of the linter, other than what it finds."""

from __future__ import annotations


class InvalidOptionError(ValueError):
    """an option is not valid"""


class InvalidSettingsError(ValueError):
    """a file has settings that are not valid"""
