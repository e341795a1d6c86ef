"""The producers that wrote to a log, as far as the log knows them."""
