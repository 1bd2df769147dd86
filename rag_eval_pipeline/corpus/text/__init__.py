"""What a PDF says, page by page, and the places of gold texts in it."""
