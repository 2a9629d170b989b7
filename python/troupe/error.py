"""What Troupe raises."""


class TroupeError(RuntimeError):
    """`code` is the kind of error as the C++ library names it: "invalid_argument", "not_found", "unavailable"..."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code
