"""Operations that are asked for again and again: when they are due, and what came of each turn."""
