"""Cloud Tasks v2, v2beta3 and v2beta2: the same queues under Google's newer API.

One servicer, written on the messages of `google-cloud-tasks`, answers REST and gRPC in all
versions; `versions` has what differs between them. Importing the messages takes about half a
second, so only the first request does it.
"""
