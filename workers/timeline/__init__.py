"""The timeline of a table: instants, their files, their contents, and the decision that makes one
final.
"""
