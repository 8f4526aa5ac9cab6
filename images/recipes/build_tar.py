"""Tars that go into the sandboxes of a build, and from one sandbox to another."""
import io
import os
import tarfile
import tempfile

from build_api import ApiError


def add_bytes(tar, name, data, owner, mode):
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(data), mode
    member.uid, member.gid = owner
    tar.addfile(member, io.BytesIO(data))


def tar_of(name, data, mode):
    file = tempfile.TemporaryFile()
    with tarfile.open(fileobj=file, mode='w', format=tarfile.PAX_FORMAT) as tar:
        add_bytes(tar, name, data, (0, 0), mode)
    return file


def tar_of_file(name, content, owner, mode):
    file = tempfile.TemporaryFile()
    with tarfile.open(fileobj=file, mode='w', format=tarfile.PAX_FORMAT) as tar:
        member = tarfile.TarInfo(name)
        member.size, member.mode = os.fstat(content.fileno()).st_size, mode
        member.uid, member.gid = owner
        tar.addfile(member, content)
    return file


def owned(packed, owner, mode):
    """Returns the tar of a box, with owner and mode replaced if they are given."""
    if owner is None and mode is None:
        return open(os.dup(packed.fileno()), 'rb')
    file = tempfile.TemporaryFile()
    try:
        with tarfile.open(fileobj=packed, mode='r|') as source, \
                tarfile.open(fileobj=file, mode='w', format=tarfile.PAX_FORMAT) as tar:
            for member in source:
                if owner is not None:
                    member.uid, member.gid = owner
                if mode is not None:
                    member.mode = mode
                tar.addfile(member, source.extractfile(member) if member.isreg() else None)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise ApiError(0, f'a sandbox of the build sent no tar: {error}') from error
    return file
