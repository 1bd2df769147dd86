"""Bodies printed as PDFs by a browser that can reach nothing but the guard."""
