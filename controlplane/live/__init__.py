"""Live streams: which kinds of rows change, told at once to whoever may see their table."""
