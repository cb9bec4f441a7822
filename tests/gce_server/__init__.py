"""A server that answers as Compute Engine's documents say, for tests: see README.md beside this file."""
