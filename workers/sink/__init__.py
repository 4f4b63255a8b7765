"""The exactly-once Kafka sink: coordinator and participants; files and commits are as everywhere.

The state machines are pure; whatever touches Kafka stands in `workers.sink.kafka`.
"""
