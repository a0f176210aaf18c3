"""How people say it: parse, call, print, exit code."""

__version__ = "0.1.0"
