"""Print pages, texts and images to PDF with a browser that can reach nothing but the egress proxy."""
