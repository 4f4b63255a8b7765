"""Runtime of the sink's state machines: threads, consumers, the control topic, the table.

A worker is one process: an agent for the control topic, and a thread for each of its participants.
The worker with partition 0 also runs the coordinator, in another thread.
"""
