"""The embedded judge: words, numbers and rules, without a model and without a server."""
