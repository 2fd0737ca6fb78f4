"""The pytest plugin of pullqueue."""
