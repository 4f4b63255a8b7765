"""Which record survives: one function for the batch, the logs, the base file and every read."""
