"""A lost write, told: who, over what, by which rule, what it cost, what to do now. Pure."""
