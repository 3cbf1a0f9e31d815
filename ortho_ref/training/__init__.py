"""What trains a network: tasks, the trainer, optimizers, and the folder of a run."""
