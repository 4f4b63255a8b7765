"""The demo of the Kafka sink: a broker of its own, and orders that are produced to it."""
