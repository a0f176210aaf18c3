"""Boards of other systems, read under our light: copied, never written to, folded by their rules and by ours."""
