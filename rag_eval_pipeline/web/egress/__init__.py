"""Egress: the policy on what may be reached, and the proxy that enforces it."""
