"""The linter, without its command: files, settings, output, fixes."""
