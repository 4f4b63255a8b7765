"""Apache Hudi's file formats below the timeline: names, properties, base files, log files.

This package does not know what an instant means, whether it completed, or which record wins.
"""

__all__: list[str] = []
