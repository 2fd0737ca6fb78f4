"""The behaviour of pull queues; knows no file, socket, Flask, YAML or environment."""
