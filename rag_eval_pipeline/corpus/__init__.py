"""Documents to PDFs to text: file names, rendering, the manifest, and gold texts located on their pages."""
