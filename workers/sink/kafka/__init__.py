"""What touches Kafka: clients, topics, the control topic, and a broker to try it all with."""

__all__: list[str] = []
