"""Access to Kafka: clients, topics, the control topic, and a broker for tests and the demo."""

__all__: list[str] = []
