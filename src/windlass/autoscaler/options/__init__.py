"""Options: command line flags, their values, the process options they set, and their reference."""
