"""Small changes of the protocol's rules that a test must notice: `make mutants`."""
