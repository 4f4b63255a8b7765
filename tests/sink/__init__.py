"""The whole sink: real Kafka, real processes."""
