"""The Task Queue API `taskqueue/v1beta2` over HTTP."""
