"""Results over nights: history, baselines, comparisons, verdicts, alerts, leaderboard, summaries, retention."""
