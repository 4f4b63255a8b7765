"""Django settings: `base` holds everything, `prod` is what runs, `test` is what pytest uses."""
