"""The other side of a claim: what runs around and inside a worker. Importing it loads nothing heavy."""
