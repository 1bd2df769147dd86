"""What an exception of somebody else's code says, on one line."""

ERROR_LIMIT = 300  # characters; some libraries put a whole response into their messages


def told(error: BaseException) -> str:
    """Class and message of an exception on one line, cut to 300 characters; never a traceback."""
    try:
        message = " ".join(str(error).split())
    except Exception:  # its own __str__ fails
        message = ""
    line = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return line if len(line) <= ERROR_LIMIT else line[: ERROR_LIMIT - 1] + "…"
