"""Tests, laid out as the trees they attack."""
