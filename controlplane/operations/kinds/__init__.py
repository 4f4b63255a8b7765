"""One module per kind of operation: its parameters, who may, its plan, its task, how it ends."""
