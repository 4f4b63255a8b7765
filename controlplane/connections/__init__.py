"""Named connections: how Kafka clusters, buckets and databases are reached, and the namespaces that
may use each.
"""
