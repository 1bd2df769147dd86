"""Systems that are Python: a function, a chain or a query engine in the same process, asked without a server."""
