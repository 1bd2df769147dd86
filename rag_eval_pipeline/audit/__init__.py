"""What is wrong with a benchmark's own questions, answers and documents."""
