"""Apache Hudi reads what we write, writes into it, and we read what it wrote."""
