"""The operator's settings for all builds: mirrors, proxies and certificates.

Read from /etc/atoll/build.toml, or the file that ATOLL_BUILD_SETTINGS names:

    certificates = ["/etc/ssl/corp.pem"]     # added to those of the machine
    [env]                                    # only while an image is made; not part of the image
    PIP_INDEX_URL = "https://mirror.example/pypi/simple"
    NPM_CONFIG_REGISTRY = "https://mirror.example/npm"
"""
import os
import pathlib
import tomllib

FILE = '/etc/atoll/build.toml'
# A build trusts the certificates that this machine trusts.
BUNDLE = pathlib.Path('/etc/ssl/certs/ca-certificates.crt')
# Path in a sandbox. It is in memory, so no image gets it.
CERTIFICATES = '/dev/shm/atoll-certificates.pem'
# Variables by which programs find their authorities.
_BY_WHICH = ('SSL_CERT_FILE', 'PIP_CERT', 'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE', 'GIT_SSL_CAINFO',
             'NODE_EXTRA_CA_CERTS', 'NPM_CONFIG_CAFILE', 'CARGO_HTTP_CAINFO')
# Variables that are passed on from the environment of the caller.
_PASSED = ('HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy', 'PIP_INDEX_URL',
           'PIP_EXTRA_INDEX_URL', 'NPM_CONFIG_REGISTRY')


SECONDS = 3600  # longest life of a build's sandbox
_MEMORY = 4 << 30


def limits():
    """Limits of a build's sandbox, by the API's names. Memory is at most three quarters of the machine's."""
    has = os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    return {'cpu': str(os.cpu_count()), 'memory': f'{min(_MEMORY, has * 3 // 4) >> 20}Mi', 'pids': '4096'}


class SettingsError(Exception):
    """An error for the operator."""


def _read():
    file = pathlib.Path(os.environ.get('ATOLL_BUILD_SETTINGS', FILE))
    if not file.exists() and 'ATOLL_BUILD_SETTINGS' not in os.environ:
        return {}
    try:
        said = tomllib.loads(file.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise SettingsError(f'{file}: {error}') from error
    for key, value in said.items():
        if key == 'certificates':
            fits = isinstance(value, list) and all(isinstance(one, str) for one in value)
        elif key == 'env':
            fits = isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
        else:
            raise SettingsError(f'{file}: {key}: no such key; there are certificates and env')
        if not fits:
            raise SettingsError(f'{file}: {key}: must be ' + ('a list of files' if key == 'certificates' else
                                                              'a table of strings'))
    return said


def environment():
    """Environment for programs that use the network in a sandbox, with certificates() at CERTIFICATES."""
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    return {**dict.fromkeys(_BY_WHICH, CERTIFICATES), **passed, **_read().get('env', {})}


def certificates():
    """Returns all certificates as PEM."""
    files = [*([BUNDLE] if BUNDLE.is_file() else []), *map(pathlib.Path, _read().get('certificates', []))]
    try:
        return b'\n'.join(file.read_bytes() for file in files)
    except OSError as error:
        raise SettingsError(f'certificates: {error}') from error
