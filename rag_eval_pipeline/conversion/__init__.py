"""From source files to a corpus and its datasets: benchmark.yaml, SQL mapping, validation of rows, and the steps."""
