"""What makes Spark and Hadoop cheaper by reaching into their inside: each reach with a switch, a reason and a fallback."""
