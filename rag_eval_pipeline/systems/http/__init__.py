"""Any JSON server over HTTP as a system under test, described by templates and paths."""
