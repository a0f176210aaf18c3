"""What happened: the vocabulary of events, the append-only store and the chain that proves it."""
