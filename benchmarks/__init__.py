"""What pullqueue costs, each figure beside a peer measured in the same run."""
