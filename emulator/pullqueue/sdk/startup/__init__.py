"""The folder that `pullqueue exec` puts on the module path of the processes it starts."""
