"""Rollbacks: instants of dead writers, and completed instants that an admin undoes."""
