#!/usr/bin/env python3
"""Writes an OCI image archive (skopeo's oci-archive) from root file systems.

    oci_archive.py --output OUT.tar --name python:3.11 --cmd '["python3"]' LAYER...

A LAYER is a directory or an uncompressed tar; the first one is the lowest. Only the standard
library is used. The same input gives the same output: the current time is not used, and files are
not younger than SOURCE_DATE_EPOCH, if the environment has it.
"""
import argparse
import gzip
import hashlib
import json
import os
import shutil
import sys
import tarfile

DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CHUNK = 1 << 20
BLOBS = "blobs/sha256/"
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


class Hashing:
    """A write-only file that hashes what is written."""

    def __init__(self, out):
        self.out, self.sha, self.size = out, hashlib.sha256(), 0

    def write(self, data):
        self.sha.update(data)
        self.size += len(data)
        return self.out.write(data)

    def flush(self):
        self.out.flush()

    def digest(self):
        return "sha256:" + self.sha.hexdigest()


def copy_layer(layer, out):
    """Writes the uncompressed tar of `layer` to `out`."""
    if hasattr(layer, "read"):
        shutil.copyfileobj(layer, out, CHUNK)
        return
    if os.path.isdir(layer):
        youngest = float(os.environ.get("SOURCE_DATE_EPOCH", "inf"))

        def owned_by_root(info):
            info.uid = info.gid = 0
            info.uname = info.gname = "root"
            info.mtime = min(info.mtime, youngest)
            return info

        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            tar.add(layer, arcname=".", filter=owned_by_root)
        return
    with open(layer, "rb") as tar:
        shutil.copyfileobj(tar, out, CHUNK)


class Archive:
    """An archive to which layers are added in any order as they become known. finish() gives it its name on disk;
    without it nothing is left. Each blob is written at its final place, and its header when size and digest are
    known."""

    def __init__(self, output, compress=True):
        if os.path.lexists(output) and not os.path.isfile(output):
            # The rename at the end would replace it, for example /dev/null.
            sys.exit(f"{sys.argv[0]}: {output} is not a regular file")
        self._output, self._part, self._compress = output, f"{output}.part", compress
        self._layers = {}  # descriptor and diff_id by position; 0 is the lowest
        self._members = set()
        self._out = open(self._part, "wb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._out.close()
        if os.path.lexists(self._part):
            os.unlink(self._part)

    def _begin(self):
        start = self._out.tell()
        self._out.write(bytes(tarfile.BLOCKSIZE))
        return start

    def _end(self, start, name):
        if name in self._members:
            self._out.truncate(start)
        else:
            self._members.add(name)
            info = tarfile.TarInfo(name)
            info.size, info.mode = self._out.tell() - start - tarfile.BLOCKSIZE, 0o644
            self._out.write(bytes(-info.size % tarfile.BLOCKSIZE))
            self._out.seek(start)
            # Uses one block, however large the size is.
            self._out.write(info.tobuf(tarfile.GNU_FORMAT))
        self._out.seek(0, os.SEEK_END)

    def _add_json(self, value, media):
        data = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
        digest = hashlib.sha256(data).hexdigest()
        start = self._begin()
        self._out.write(data)
        self._end(start, BLOBS + digest)
        return {"mediaType": media, "digest": "sha256:" + digest, "size": len(data)}

    def add_layer(self, layer, place):
        """`layer`: a directory, the path of a tar, or a file to read a tar from."""
        start = self._begin()
        blob = Hashing(self._out)
        if self._compress:
            # This level takes a third of the default's time for a tenth more bytes. Most archives are
            # imported only once.
            with gzip.GzipFile(filename="", mode="wb", fileobj=blob, mtime=0, compresslevel=1) as z:
                plain = Hashing(z)
                copy_layer(layer, plain)
        else:
            plain = blob
            copy_layer(layer, plain)
        self._end(start, BLOBS + blob.sha.hexdigest())
        media = "application/vnd.oci.image.layer.v1.tar" + ("+gzip" if self._compress else "")
        self._layers[place] = {"mediaType": media, "digest": blob.digest(), "size": blob.size}, plain.digest()

    def finish(self, name, config, arch=ARCH, quiet=False):
        """`config`: the process members of an OCI image config."""
        if not any(one.startswith("PATH=") for one in config.get("Env", [])):
            config = {**config, "Env": [DEFAULT_PATH, *config.get("Env", [])]}
        layers = [self._layers[place] for place in sorted(self._layers)]
        written = self._add_json(
            {"architecture": arch, "os": "linux", "config": config,
             "rootfs": {"type": "layers", "diff_ids": [diff_id for _, diff_id in layers]}},
            "application/vnd.oci.image.config.v1+json")
        manifest = self._add_json(
            {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
             "config": written, "layers": [descriptor for descriptor, _ in layers]},
            "application/vnd.oci.image.manifest.v1+json")
        manifest["annotations"] = {"org.opencontainers.image.ref.name": name}
        manifest["platform"] = {"architecture": arch, "os": "linux"}
        index = {"schemaVersion": 2, "manifests": [manifest], "mediaType": "application/vnd.oci.image.index.v1+json"}
        for path, value in (("oci-layout", {"imageLayoutVersion": "1.0.0"}), ("index.json", index)):
            start = self._begin()
            self._out.write(json.dumps(value).encode())
            self._end(start, path)
        self._out.write(bytes(2 * tarfile.BLOCKSIZE))
        self._out.write(bytes(-self._out.tell() % tarfile.RECORDSIZE))
        self._out.close()
        os.rename(self._part, self._output)
        if quiet:
            return
        size = os.path.getsize(self._output) / 1e6
        print(f"{self._output}: {name}, {len(layers)} layers, {size:.1f} MB", file=sys.stderr)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("layers", nargs="+", metavar="LAYER")
    parser.add_argument("--output", required=True)
    parser.add_argument("--name", required=True, help="repository:tag")
    parser.add_argument("--arch", default=ARCH)
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--cmd", default='["/bin/sh"]', help="JSON array")
    parser.add_argument("--entrypoint", default=None, help="JSON array")
    parser.add_argument("--workdir", default="/")
    parser.add_argument("--user", default="")
    parser.add_argument("--no-gzip", action="store_true", help="store layers uncompressed")
    return parser.parse_args()


def main():
    args = parse_arguments()
    process = {"Env": args.env, "Cmd": json.loads(args.cmd), "WorkingDir": args.workdir,
               "User": args.user}
    if args.entrypoint:
        process["Entrypoint"] = json.loads(args.entrypoint)
    with Archive(args.output, not args.no_gzip) as archive:
        for place, layer in enumerate(args.layers):
            archive.add_layer(layer, place)
        archive.finish(args.name, process, args.arch)


if __name__ == "__main__":
    main()
