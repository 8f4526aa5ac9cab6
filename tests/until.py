"""The one place where a Python test waits for something that nothing announces."""
import time


def until(condition, seconds=10, what=None):
    """The first true value of `condition()`; AssertionError at the deadline, naming `what`.

    For a state of the outside world that has no event to wait for. Never a pause "to be sure":
    what has not happened by the deadline is a failure."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f'not within {seconds} s: {what or condition}')
        time.sleep(0.005)
    return value
