"""TLS, described: material, versions, ciphers, and the names of those who show certificates."""
