"""What the `lint` command adds to the rules: files, settings, output, fixes."""
