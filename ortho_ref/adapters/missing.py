"""A framework that is not installed."""


def missing(error: ImportError, module: str, command: str) -> ImportError:
    """What to raise in place of an import's error: one line, unless the error is about something inside the module."""
    if error.name is not None and error.name.split(".")[0] == module:
        return ImportError(f"{module} is not installed: {command}", name=module)
    return error
