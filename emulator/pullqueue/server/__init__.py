"""The HTTP server: `app.create_app` makes the WSGI application, `lifecycle.Server` serves it."""
