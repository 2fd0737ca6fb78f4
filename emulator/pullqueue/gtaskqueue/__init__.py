"""The two commands of Google's guide to pull queues, `gtaskqueue` and `gtaskqueue_puller`.

They speak `taskqueue/v1beta2` and nothing else, so that they work against any server of it.
"""
