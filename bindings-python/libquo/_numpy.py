"""The check for NumPy, which only arrays need."""


def require() -> None:
    """Raises an :class:`ImportError` with the remedy if NumPy cannot be imported."""
    try:
        import numpy  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"libquo: arrays need NumPy ({error}): install it for this Python, such as by "
            "`apt-get install python3-numpy` or `pip install numpy`, or load the site's module",
            name="numpy",
        ) from error
