"""What happens next: commands, the plan, the sweep and what it sees of processes."""
