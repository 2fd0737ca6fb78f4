"""The Task Queue API `taskqueue/v1beta1` and `v1beta2` over HTTP, as blueprints.

`routes` is the table of methods, `handlers` carries them out, `resources` is what they return.
"""
