"""Where a session's evictions are kept: one protocol, several stores."""
