"""What holds for every test."""

from hypothesis import settings

# machines are shared and slow at times: how long an example takes says nothing of the code
settings.register_profile("turnout", deadline=None)
settings.load_profile("turnout")
