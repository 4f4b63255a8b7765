"""Every byte of Apache Hudi's format below the timeline: names, properties, base files, log files.

Nothing here knows what an instant means, whether it completed, or which record wins.
"""

__all__: list[str] = []
