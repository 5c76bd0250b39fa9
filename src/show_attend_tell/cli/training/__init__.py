"""The commands `sat train` and `sat tune`: their settings, and what a training starts from."""
