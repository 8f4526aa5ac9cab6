"""The releases of Debian that recipes may name."""
PYTHON = {'bookworm': '3.11', 'trixie': '3.13'}
GLIBC = {'bookworm': 36, 'trixie': 41}  # minor version N of glibc 2.N


def python_place(suite, layer):
    """Returns the directory of PyPI packages in this release."""
    return layer / f'usr/local/lib/python{PYTHON[suite]}/dist-packages'
