"""A server of every interface that the pipeline speaks, for trying it without a real one."""
