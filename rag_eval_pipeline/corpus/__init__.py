"""Documents to PDFs to text: names, egress, rendering, the manifest, and gold texts found again."""
