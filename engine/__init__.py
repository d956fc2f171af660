"""The routing engine, in floors: pure data and the pure turn below, I/O at the edge above."""
