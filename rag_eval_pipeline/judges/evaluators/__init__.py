"""Evaluators: what each says of an event, how many of them are run on many events, and what is made of that."""
