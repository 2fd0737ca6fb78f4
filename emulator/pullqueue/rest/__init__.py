"""REST: the Task Queue API `taskqueue/v1beta2` over HTTP.

`pullqueue.rest.app.create_app` gives the WSGI application, `pullqueue.rest.server.Server` serves
it.
"""
