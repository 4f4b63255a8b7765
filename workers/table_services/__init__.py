"""Table services: compaction, clustering, cleaning, archiving, savepoints, restore.

Each is a plan first, durable before its first effect, restartable at every step.
"""
