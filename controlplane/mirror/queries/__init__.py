"""Reads of the mirror as plain rows: what pages, API and shell show. Never touches storage."""
