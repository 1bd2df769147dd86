"""Retrieval: rankings against judgements, scored as trec_eval scores them, to the last bit."""
