"""Push tasks: what is sent and when, what a result does to a task, and the sending itself."""
