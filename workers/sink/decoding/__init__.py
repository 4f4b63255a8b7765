"""Values of Kafka records to Arrow, a batch at a time; what cannot be decoded is named."""

__all__: list[str] = []
