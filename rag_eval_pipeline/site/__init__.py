"""The report: a site of static pages that opens from a file, without a network."""
