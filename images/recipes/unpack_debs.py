"""Unpacks Debian packages into one tar, without running anything of them.

Only the tar is written to disk, whatever names the packages contain. /bin, /lib and similar directories are links
into /usr, as in Debian.
"""
import pathlib
import subprocess
import sys
import tarfile

MERGED = ('bin', 'lib', 'lib32', 'lib64', 'libo32', 'libx32', 'sbin')
MADE = ('bin', 'lib', 'lib64', 'sbin')
LEFT_OUT = ('usr/share/man/', 'usr/share/doc/', 'usr/share/locale/', 'usr/share/info/', 'usr/share/lintian/')


def _name(given):
    """Returns 'usr/bin/sh' for './bin/sh'."""
    name = given.removeprefix('./').strip('/')
    first = name.partition('/')[0]
    return f'usr/{name}' if first in MERGED else name


def _add(package, out, known):
    with subprocess.Popen(['dpkg-deb', '--fsys-tarfile', package], stdout=subprocess.PIPE) as unpacked:
        with tarfile.open(fileobj=unpacked.stdout, mode='r|') as members:
            for member in members:
                if member.issym() and member.name.removeprefix('./') in MERGED:
                    continue  # exists already
                member.name = _name(member.name)
                if member.name in known or f'{member.name}/'.startswith(LEFT_OUT):
                    continue
                known.add(member.name)
                if member.islnk():
                    member.linkname = _name(member.linkname)
                out.addfile(member, members.extractfile(member) if member.isreg() else None)
    if unpacked.returncode != 0:
        sys.exit(f'{package}: dpkg-deb ended with {unpacked.returncode}')


def unpack(directory, out_path):
    """Adds all packages of a directory."""
    packages = sorted(pathlib.Path(directory).glob('*.deb'))
    known = {''}
    with tarfile.open(out_path, 'w', format=tarfile.PAX_FORMAT) as out:
        for name in MADE:
            link = tarfile.TarInfo(name)
            link.type, link.linkname, link.mode = tarfile.SYMTYPE, f'usr/{name}', 0o777
            out.addfile(link)
        for package in packages:
            _add(package, out, known)
