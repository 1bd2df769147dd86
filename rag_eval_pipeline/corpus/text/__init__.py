"""The text of PDFs, page by page, and the places of gold texts in it."""
