"""Places of what jobs write: directories, S3-compatible stores, HDFS; one file layer."""
