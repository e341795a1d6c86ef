"""Archives of topics as Parquet files with proof, and their restoring."""
