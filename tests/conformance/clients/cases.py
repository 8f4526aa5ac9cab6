"""How a client program in Python tells the runner what it found; see ../README.md."""
import asyncio
import inspect
import os
import sys
import traceback

DOMAIN = os.environ.get('CONFORMANCE_DOMAIN', '')
KEY = os.environ.get('CONFORMANCE_KEY', '')
IMAGE = os.environ.get('CONFORMANCE_IMAGE', '')
HOST_DIR = os.environ.get('CONFORMANCE_HOST_DIR', '')

# A command that asks a web server by name. Of what the image has, nothing more comfortable can
# resolve names: static glibc.
FETCH = r"""a=$(nslookup -type=a NAME | awk '/^Name/ {n = 1} /^Address/ && n {print $2}')
[ -n "$a" ] && printf 'GET / HTTP/1.1\r\nHost: NAME\r\nConnection: close\r\n\r\n' | nc -w 5 "$a" 80 || true"""

_cases = []


def case(name):
    """Registers a function, plain or async, as the case AREA/WHAT."""
    def register(body):
        _cases.append((name, body))
        return body
    return register


def equal(got, wanted):
    if got != wanted:
        raise AssertionError(f'got {got!r}, wanted {wanted!r}')


def check(holds, what):
    if not holds:
        raise AssertionError(what)


def tell(name, error=None):
    """One verdict; returns when the runner has noted it, and what crossed the wire until then."""
    reason = ' '.join(f'{type(error).__name__}: {error}'.split())[:300] if error else ''
    print(f'not ok {name} - {reason}' if error else f'ok {name}', flush=True)
    sys.stdin.readline()


async def run_all(*arguments):
    for name, body in _cases:
        try:
            done = body(*arguments)
            if inspect.isawaitable(done):
                await done
        except Exception as error:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
            tell(name, error)
        else:
            tell(name)


def run(*arguments):
    asyncio.run(run_all(*arguments))


def run_plain(*arguments):
    """Without an event loop, for clients that must not find one running."""
    for name, body in _cases:
        try:
            body(*arguments)
        except Exception as error:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
            tell(name, error)
        else:
            tell(name)
