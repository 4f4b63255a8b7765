"""One module per page: each view parses, asks for access, calls one selector or service."""
