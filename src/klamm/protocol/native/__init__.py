"""The loops over records in C, where a compiler was there when klamm was installed."""
