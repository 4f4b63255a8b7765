"""What the pages over all tables say: figures that need a person, causes, lists. Reads only."""
