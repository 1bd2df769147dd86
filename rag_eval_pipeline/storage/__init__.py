"""Files that survive: atomic publishing, checksummed journals, locks between processes."""
