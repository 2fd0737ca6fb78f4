"""The JSON Schemas that pullqueue publishes, as package data."""
