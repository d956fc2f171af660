"""The wire formats: one module each."""
