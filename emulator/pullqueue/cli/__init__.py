"""The `pullqueue` command."""
