"""How long tests wait for what has to come."""

PATIENCE_S = 240.0  # the one limit, for servers, processes, pages and the product's own limits: the machine may be busy
