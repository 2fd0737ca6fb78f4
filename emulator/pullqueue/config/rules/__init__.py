"""The rules that make a queue.yaml right or wrong."""
