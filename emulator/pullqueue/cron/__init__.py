"""cron.yaml: its jobs, when they run, and the requests of their URLs."""
