"""The report as a site: pages that open from a file, without a network, and say what happened in the night."""
