"""Benchmarks against Apache Hudi and delta-rs, in one run on one machine: `make bench`.

Every engine is a process of its own that stays warm; jobs alternate between engines, and medians of
several rounds are compared. See docs/performance.md for the method and the results.
"""
