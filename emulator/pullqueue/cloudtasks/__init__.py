"""Cloud Tasks v2beta2: the same queues under Google's newer API, over REST and gRPC.

One servicer, written on the messages of `google-cloud-tasks`, answers both transports. Importing
those messages takes about half a second, so that only the first request does it.
"""
