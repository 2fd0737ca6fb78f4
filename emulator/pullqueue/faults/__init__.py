"""Faults: calls to a queue that fail, take time, or return no tasks."""
