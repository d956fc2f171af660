"""Floor 0: the state machines, as rows. Needs nothing but the standard library and transitions."""
