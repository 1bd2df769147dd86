"""A benchmark's source files as typed rows: CSV, JSON lines, parquet, archives, downloads; bad rows are kept apart."""
