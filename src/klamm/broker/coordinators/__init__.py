"""The brokers that keep groups and transactions, and the topics behind them."""
