"""The command ortho-ref, python -m ortho_ref: the kit's commands (`ortho_ref.conformance.__main__`)."""

from ortho_ref.conformance.__main__ import program


def main() -> None:
    """Run one, and end the process."""
    program("ortho-ref")


if __name__ == "__main__":
    main()
