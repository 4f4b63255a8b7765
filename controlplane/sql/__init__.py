"""SQL from people: what each may read, and a process with limits that computes it."""
