"""The folder from which a Dockerfile's COPY takes files: its content, what .dockerignore excludes, and tars of it.

No link is followed when a file is opened: each name is opened within the folder, one directory after the other.
"""
import contextlib
import hashlib
import os
import stat
import tarfile

from globs import Glob

MAX_ENTRIES = 1_000_000
MAX_DEPTH = 200


class ContextError(Exception):
    """An error for the author of the Dockerfile."""


class Entry:
    """`path`: its components, relative to the context."""
    __slots__ = ('path', 'info', 'link')

    def __init__(self, path, info, link=''):
        self.path, self.info, self.link = path, info, link

    def is_dir(self):
        return stat.S_ISDIR(self.info.st_mode)


class Context:
    def __init__(self, folder, ignored):
        self._top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._ignored = ignored
        self._entries = None  # entries by path

    def close(self):
        os.close(self._top)

    @contextlib.contextmanager
    def _opened(self, path, flags):
        at = os.dup(self._top)
        try:
            for i, name in enumerate(path):
                more = flags if i == len(path) - 1 else os.O_RDONLY | os.O_DIRECTORY
                below = os.open(name, more | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)

    def _walk(self, path, found):
        if len(path) > MAX_DEPTH:
            raise ContextError(f'{"/".join(path)[:200]}: is more than {MAX_DEPTH} directories deep')
        with self._opened(path, os.O_RDONLY | os.O_DIRECTORY) as at:
            for name in sorted(os.listdir(at)):
                here = (*path, name)
                info = os.stat(name, dir_fd=at, follow_symlinks=False)
                is_dir = stat.S_ISDIR(info.st_mode)
                out = self._ignored.leaves_out(here)
                if is_dir and not self._ignored.leaves_out_all(here):
                    if not out:
                        found[here] = Entry(here, info)
                    self._walk(here, found)
                elif not out and not is_dir:
                    link = os.readlink(name, dir_fd=at) if stat.S_ISLNK(info.st_mode) else ''
                    found[here] = Entry(here, info, link)
                if len(found) > MAX_ENTRIES:
                    raise ContextError(f'the context has more than {MAX_ENTRIES} files; leave some out by .dockerignore')
        if path and path not in found and any(other[:len(path)] == path for other in found):
            with self._opened(path, os.O_RDONLY | os.O_DIRECTORY) as at:
                found[path] = Entry(path, os.fstat(at))

    def entries(self):
        if self._entries is None:
            self._entries = {}
            self._walk((), self._entries)
        return self._entries

    def match(self, source):
        """Returns the entries that a source of COPY names, following links within the context. () is the whole
        context."""
        parts = [part for part in source.split('/') if part not in ('', '.')]
        if '..' in parts:
            raise ContextError(f"'{source}': leads out of the context")
        if not parts:
            return [()]
        glob = Glob('/'.join(parts))
        found = sorted(path for path in self.entries() if len(path) == len(parts) and glob.fits(path))
        if not found:
            found = [self._through_links(tuple(parts), source)] if not set(source) & set('*?[') else []
        if not found:
            raise ContextError(f"'{source}': the context has nothing of that name (or .dockerignore leaves it out)")
        return [self._through_links(path, source) for path in found]

    def _through_links(self, path, source):
        """Resolves a path, following links only within the context."""
        rest, here, followed = list(path), (), 0
        while rest:
            name = rest.pop(0)
            if name == '..':
                if not here:
                    raise ContextError(f"'{source}': a link leads out of the context")
                here = here[:-1]
                continue
            here = (*here, name)
            entry = self.entries().get(here)
            if entry is None:
                raise ContextError(f"'{source}': the context has nothing of that name (or .dockerignore leaves it out)")
            if entry.link:
                followed += 1
                if entry.link.startswith('/') or followed > 40:
                    raise ContextError(f"'{source}': a link leads out of the context")
                rest = [part for part in entry.link.split('/') if part not in ('', '.')] + rest
                here = here[:-1]
        return here

    def beneath(self, path):
        """Returns the entries below a directory, each directory before its content."""
        return [entry for other, entry in sorted(self.entries().items())
                if len(other) > len(path) and other[:len(path)] == path]

    def digest(self, into, path):
        """Adds what COPY would copy to a hash: names, kinds, modes and contents, but no times or owners."""
        entry = self.entries().get(path)
        for one in [*([entry] if entry else []), *(self.beneath(path) if not entry or entry.is_dir() else [])]:
            kind = stat.S_IFMT(one.info.st_mode)
            # The instruction names the entry itself, so its own name is not part of the rest of the path.
            name = '/'.join(one.path[len(path):])
            into.update(f'{len(name.encode("utf-8", "surrogateescape"))} {kind:o} {one.info.st_mode & 0o7777:o} '
                        f'{one.link}\0'.encode('utf-8', 'surrogateescape') + os.fsencode(name))
            if stat.S_ISREG(kind):
                content = hashlib.sha256()
                with self._opened(one.path, os.O_RDONLY) as file:
                    while data := os.read(file, 1 << 18):
                        content.update(data)
                into.update(content.digest())

    def add(self, tar, path, name, owner, mode):
        """Adds the entry `path`, with everything below it, to a tarfile under `name`. '' means only a directory's
        content."""
        entry = self.entries().get(path)
        wanted = [*([entry] if entry and name else []), *(self.beneath(path) if not entry or entry.is_dir() else [])]
        for one in wanted:
            member = tarfile.TarInfo('/'.join([part for part in (name, *one.path[len(path):]) if part]))
            member.uid, member.gid = owner
            member.mtime = int(one.info.st_mtime)
            member.mode = one.info.st_mode & 0o7777 if mode is None else mode
            if one.link:
                member.type, member.linkname = tarfile.SYMTYPE, one.link
                tar.addfile(member)
            elif one.is_dir():
                member.type = tarfile.DIRTYPE
                tar.addfile(member)
            elif stat.S_ISREG(one.info.st_mode):
                with self._opened(one.path, os.O_RDONLY) as fd, open(os.dup(fd), 'rb') as file:
                    now = os.fstat(fd)
                    if not stat.S_ISREG(now.st_mode):
                        raise ContextError(f'{"/".join(one.path)}: became another kind of file while it was read')
                    member.size = now.st_size
                    tar.addfile(member, file)
            # Sockets, FIFOs and devices are not copied.
