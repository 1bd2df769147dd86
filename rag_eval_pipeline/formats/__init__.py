"""The records and files of the five specifications: one model, one reader and one writer for each."""
