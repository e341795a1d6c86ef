"""Guards what a broker serves: who may do what, and the lists, tokens and users behind that."""
