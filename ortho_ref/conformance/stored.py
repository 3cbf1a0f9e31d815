"""Reports that were stored, read."""

from pathlib import Path
from typing import Any

from ortho_ref import files
from ortho_ref.conformance.report import FORMAT
from ortho_ref.conformance.schema import Report


def read_report(path: str | Path) -> dict[str, Any]:
    """What `run --report` has written.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    dict
        The report, as `python -m ortho_ref.conformance schema` describes it, without its format and its seal.

    Raises
    ------
    OSError
        It cannot be read.
    ValueError
        It is of another format, or not what was written; the message, one line, names the file.
    """
    return files.read_sealed(path, FORMAT, Report).value
