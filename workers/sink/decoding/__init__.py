"""Decoders from values of Kafka records to Arrow batches, with a cause for each bad record."""

__all__: list[str] = []
