"""A file as TOML, for deployments and scenarios alike."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from turnout.engine.deployment.tables import Table
from turnout.engine.errors import ConfigurationError


def read_toml(path: str | os.PathLike[str]) -> Table:
    """The top table of a file.

    Raises:
        ConfigurationError: why it cannot be read; the file is left to the caller to name.
    """
    try:
        with Path(path).open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigurationError(f"cannot be read: {error.strerror}") from error
    except RecursionError:
        raise ConfigurationError("is nested too deeply to be read") from None
    except ValueError as error:
        raise ConfigurationError(f"is no TOML: {error}") from error
