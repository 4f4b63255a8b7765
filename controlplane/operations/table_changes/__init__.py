"""What is done to a table that is registered: another name, namespace or place, and taking it off
the register. No file of the table is touched.
"""
