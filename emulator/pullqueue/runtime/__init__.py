"""What a server runs: its state, the delivery of push tasks, cron jobs, faults, queue.yaml."""
