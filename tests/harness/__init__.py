"""Shared parts of the black-box tests: a server process, a raw connection, polls with a deadline, memory
figures."""
