"""The merge of records: one function for the batch, the logs, the base file and every read."""
