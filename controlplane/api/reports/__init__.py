"""What workers post."""
