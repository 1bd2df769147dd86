"""The only way out: what may be reached, and the proxy that sees to it."""
