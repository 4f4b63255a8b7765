"""From a batch to a commit: prepare rows, place them, write files behind markers, finalise,
publish.
"""
