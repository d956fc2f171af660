"""What holds for every test."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from redis_server import BINARY, MISSING, RedisServer

# the stories that a store has to pass say what they found, as tests do
pytest.register_assert_rewrite("turnout.engine.testing.conformance")

# machines are shared and slow at times: how long an example takes says nothing of the code
settings.register_profile("turnout", deadline=None)
settings.load_profile("turnout")


@pytest.fixture(scope="session")
def running_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis for the whole run."""
    see_that_redis_is_there()
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_server(running_redis: RedisServer) -> RedisServer:
    """A Redis that holds nothing."""
    running_redis.ask("FLUSHALL")
    running_redis.ask("CONFIG", "RESETSTAT")
    return running_redis


@pytest.fixture(scope="session")
def redis_needed() -> None:
    """For a test that starts a Redis of its own."""
    see_that_redis_is_there()


def see_that_redis_is_there() -> None:
    if BINARY is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if BINARY is None:
        terminalreporter.write_line(MISSING, red=True, bold=True)
