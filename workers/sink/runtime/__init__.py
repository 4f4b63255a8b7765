"""The machines of the sink set going: threads, consumers, the control topic, the table.

A worker is one process: an agent for the control topic, a thread for each of its participants, and
the coordinator in a thread of its own where the worker has partition 0.
"""
