"""One node: check this machine, start every process under a supervisor, say how they are, stop
them.
"""
