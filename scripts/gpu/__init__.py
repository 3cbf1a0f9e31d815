"""The sections of `scripts.gpu_check`."""
