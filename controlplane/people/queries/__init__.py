"""People and their tokens, as pages and the API show them."""
