"""What nights add up to: history, leaderboard, comparisons, the report."""
