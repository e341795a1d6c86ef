"""SASL on the side of a broker, without a connection: the steps, and what each mechanism checks."""
