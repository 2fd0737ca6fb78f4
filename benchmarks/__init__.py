"""What pullqueue costs, next to peers measured in the same run."""
