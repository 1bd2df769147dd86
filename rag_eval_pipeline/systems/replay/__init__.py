"""Recorded answers as a system under test: what was answered elsewhere is scored here, and nothing is asked."""
