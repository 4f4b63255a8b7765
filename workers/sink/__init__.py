"""The exactly-once Kafka sink: coordinator and participants.

Its files and commits are those of any write. The state machines are pure. All code that connects
to Kafka is in `workers.sink.kafka`.
"""
