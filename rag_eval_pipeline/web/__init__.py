"""All HTTP: the egress proxy, the fetcher of documents, and the client of trusted servers."""
