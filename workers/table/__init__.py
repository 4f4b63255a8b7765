"""A table as the engine sees it: configuration, storage, and the file slices visible at an
instant.
"""
