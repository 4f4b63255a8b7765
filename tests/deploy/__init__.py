"""Tests of the files below `deploy/`."""
