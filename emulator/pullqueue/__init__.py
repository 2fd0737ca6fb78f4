"""App Engine's pull queues on your own machine."""
