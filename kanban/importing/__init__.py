"""Bringing in a log of ours, or the board of another system. What it came from is never written to, only read."""
