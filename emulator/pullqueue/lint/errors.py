"""Errors that prevent a run of the linter."""

from __future__ import annotations


class InvalidOptionError(ValueError):
    """an option is not valid"""


class InvalidSettingsError(ValueError):
    """a file has settings that are not valid"""
