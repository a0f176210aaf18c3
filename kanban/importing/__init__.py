"""Bringing a log in from a file. What it came from is never written to, and nothing is taken from it by itself."""
