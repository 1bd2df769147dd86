"""One evaluation: one pass of one system over one dataset version, from the first question to published results."""
