"""What a run's folder says, read and let go of."""

from ortho_ref.training.run_folder import RunFolder


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


def iterations_of(out, which=None):
    with RunFolder(out) as folder:
        return folder.iterations(which)
