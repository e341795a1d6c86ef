"""The package of the tests; the source distribution leaves this file out."""
