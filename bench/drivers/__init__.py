"""The programs that run the jobs, one per engine; each runs in the engine's own Python.

Hudi's driver runs where Sluice and its packages are not, so what drivers share is plain.
"""
