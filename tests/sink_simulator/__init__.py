"""The sink's protocol under every fault that can be thought of, one order of things per seed.

The machines and the messages are the engine's; topic, control topic, storage of files and the
ledger are models that do their worst. `python -m tests.sink_simulator <seed>` tells what happened.
"""
