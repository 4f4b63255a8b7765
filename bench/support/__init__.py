"""What benches and tests both start: peers, servers, writer processes, prepared tables."""
