"""queue.yaml: read, checked, and given as data."""
