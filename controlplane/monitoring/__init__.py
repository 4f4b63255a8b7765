"""What an operator's monitoring asks of a node: does it live, is it ready, what are its figures."""
