"""Which route of the public API an exchange used; routes.txt is the list."""
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
PORTS = {'44772': 'execd', '18080': 'egress'}


def load():
    """[(part, method, path)] in the order of the file."""
    lines = (HERE / 'routes.txt').read_text(encoding='utf-8').splitlines()
    return [tuple(line.split()) for line in lines if line and not line.startswith('#')]


def pattern(path):
    # What is proxied to a port may go on below it.
    below = '(?:/.*)?' if path.endswith('/proxy/{port}') else ''
    return re.compile(re.sub(r'\{\w+\}', '[^/]+', path) + below + '$')


ROUTES = [(part, method, pattern(path), f'{part} {method} {path}') for part, method, path in load()]


def classify(method, target):
    """"execd GET /ping" for a known route, else None."""
    path = target.partition('?')[0].removeprefix('/v1')
    part = 'lifecycle'
    proxied = re.match(r'/sandboxes/[^/]+/proxy/(\d+)(/.*)?$', path)
    if proxied and proxied[1] in PORTS:
        part, path = PORTS[proxied[1]], proxied[2] or '/'
    for owner, wanted, regex, name in ROUTES:
        if owner == part and wanted in (method, 'ANY') and regex.match(path):
            return name
    return None
