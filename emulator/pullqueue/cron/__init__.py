"""cron.yaml: its jobs, and when they run. Nothing here uses threads or sockets."""
