"""Undoing what must not stay: dead writers' instants, and completed instants that an admin takes
back.
"""
