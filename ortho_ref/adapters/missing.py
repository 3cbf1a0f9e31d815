"""A framework that is not installed."""


def missing(error: ImportError, module: str, command: str) -> ImportError:
    """What to raise in place of an import's error.

    Parameters
    ----------
    error : ImportError
        What importing raised.
    module : str
        The framework's module.
    command : str
        What installs it.

    Returns
    -------
    ImportError
        One line, where it is the framework that is missing; else the error, which is about something inside it.
    """
    if error.name is not None and error.name.split(".")[0] == module:
        return ImportError(f"{module} is not installed: {command}", name=module)
    return error
