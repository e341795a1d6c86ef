"""A Spark, a Java and Python workers to run jobs on."""
