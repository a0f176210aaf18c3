"""How people say it: parse, call, print, exit code."""
