"""What each person chose for the pages: a time zone, columns, views, pins. It gives no rights."""
