"""What tests share: storages, clocks, tables told as stories, the referee."""
