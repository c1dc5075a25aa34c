"""What goes wrong, said in one sentence: what is wrong, with the value, and what to do."""


class CausalnbError(Exception):
    """One clear sentence for the reader; the command line prints it in one line and exits with `code`."""

    code = 2


class LabError(CausalnbError):
    """A profile, experiment, result, run, table or figure that cannot be used as asked."""


class FileError(LabError):
    """A file at hand that cannot be read or written, or is not as it was written."""

    code = 1


class DataError(CausalnbError, ValueError):
    """A data file or task that is missing, unknown or fails its hash."""


def sentence(error: BaseException) -> str:
    """The text of `error` in one line; its type goes first unless the text was written for the reader."""
    text = " ".join(str(error).split())
    known = text and isinstance(error, (CausalnbError, ValueError))
    return text if known else f"{type(error).__name__}: {text}"
