"""The tests: sentences about behaviour. `tests.given` builds the events that a sentence starts from."""
