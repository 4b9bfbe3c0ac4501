"""Failures that nobody foresaw: those that are logged with a stack of calls."""

import logging


class Unforeseen(logging.Handler):
    """Hears of them while it is entered, whoever logs."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(self.format(record))

    def __enter__(self) -> "Unforeseen":
        logging.getLogger().addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
