"""Who is writing, who lost to whom, and what workers reported."""
