"""Judges: what is right, supported or refused in an answer, with a reason; and how far a judge agrees with people."""
