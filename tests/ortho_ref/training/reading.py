"""What a run's folder says, read and let go of."""

from pathlib import Path

from ortho_ref import files
from ortho_ref.training import forms
from ortho_ref.training.run_folder import CONFIG, CONFIG_FORMAT, RunFolder


def read_config(out):
    with RunFolder(out) as folder:
        return folder.config


def read_metrics(out):
    with RunFolder(out) as folder:
        return folder.records


def read_summary(out):
    with RunFolder(out) as folder:
        return folder.summary


def choices(out):
    with RunFolder(out) as folder:
        return folder.choices()


def iterations_of(out):
    with RunFolder(out) as folder:
        return folder.iterations()


def contents(folder):
    """Name -> bytes of every file in it."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def write_config(out, config):
    """Another config, sealed as it has to be; its seal."""
    return files.write_sealed(Path(out) / CONFIG, CONFIG_FORMAT, config, forms.Config)
