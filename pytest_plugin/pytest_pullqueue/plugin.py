"""Fixtures of pullqueue."""
