#!/usr/bin/env python3
"""Writes an OCI image archive (what skopeo calls oci-archive) from root file systems.

    oci_archive.py --output OUT.tar --name python:3.11 --cmd '["python3"]' LAYER...

A LAYER is a directory or an uncompressed tar; the first one is the lowest. Only the standard
library is used. Same input, same output: no time of day goes in, and of files none that is younger
than SOURCE_DATE_EPOCH, if the environment has it.
"""
import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile

DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CHUNK = 1 << 20
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)


class Hashing:
    """A write-only file that hashes what passes through."""

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
    """The uncompressed tar of `layer` into `out`."""
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


def write_layer(layer, directory, compress):
    """Writes the blob; returns its descriptor and its diff_id."""
    path = os.path.join(directory, "layer")
    with open(path, "wb") as raw:
        blob = Hashing(raw)
        if compress:
            # A third of the time of the usual level, for a tenth more bytes: most archives are imported once.
            with gzip.GzipFile(filename="", mode="wb", fileobj=blob, mtime=0, compresslevel=1) as z:
                plain = Hashing(z)
                copy_layer(layer, plain)
        else:
            plain = blob
            copy_layer(layer, plain)
    os.rename(path, os.path.join(directory, blob.sha.hexdigest()))
    media = "application/vnd.oci.image.layer.v1.tar" + ("+gzip" if compress else "")
    return {"mediaType": media, "digest": blob.digest(), "size": blob.size}, plain.digest()


def write_json(value, directory, media):
    data = json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
    digest = hashlib.sha256(data).hexdigest()
    with open(os.path.join(directory, digest), "wb") as out:
        out.write(data)
    return {"mediaType": media, "digest": "sha256:" + digest, "size": len(data)}


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


def write(output, name, layers, config, arch=ARCH, compress=True):
    """Writes the archive. `layers`: directories and tars, the lowest first; `config`: what
    processes of the image get, as the OCI image specification calls it."""
    if os.path.lexists(output) and not os.path.isfile(output):
        # The rename at the end would take its place: /dev/null's, say.
        sys.exit(f"{sys.argv[0]}: {output} is not a regular file")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(output))) as blobs:
        descriptors, diff_ids = [], []
        for number, layer in enumerate(layers, 1):
            print(f"  layer {number} of {len(layers)}", file=sys.stderr)
            descriptor, diff_id = write_layer(layer, blobs, compress)
            descriptors.append(descriptor)
            diff_ids.append(diff_id)
        if not any(one.startswith("PATH=") for one in config.get("Env", [])):
            config = {**config, "Env": [DEFAULT_PATH, *config.get("Env", [])]}
        written = write_json(
            {"architecture": arch, "os": "linux", "config": config,
             "rootfs": {"type": "layers", "diff_ids": diff_ids}},
            blobs, "application/vnd.oci.image.config.v1+json")
        manifest = write_json(
            {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
             "config": written, "layers": descriptors},
            blobs, "application/vnd.oci.image.manifest.v1+json")
        manifest["annotations"] = {"org.opencontainers.image.ref.name": name}
        manifest["platform"] = {"architecture": arch, "os": "linux"}
        index = json.dumps({"schemaVersion": 2, "manifests": [manifest],
                            "mediaType": "application/vnd.oci.image.index.v1+json"}).encode()
        pack(output, blobs, index)
    size = os.path.getsize(output) / 1e6
    print(f"{output}: {name}, {len(layers)} layers, {size:.1f} MB", file=sys.stderr)


def pack(output, blobs, index):
    part = f"{output}.part"
    with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as tar:
        def add(name, data):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))

        add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        add("index.json", index)
        for name in sorted(os.listdir(blobs)):
            info = tarfile.TarInfo("blobs/sha256/" + name)
            path = os.path.join(blobs, name)
            info.size, info.mode = os.path.getsize(path), 0o644
            with open(path, "rb") as data:
                tar.addfile(info, data)
    os.rename(part, output)


def main():
    args = parse_arguments()
    process = {"Env": args.env, "Cmd": json.loads(args.cmd), "WorkingDir": args.workdir,
               "User": args.user}
    if args.entrypoint:
        process["Entrypoint"] = json.loads(args.entrypoint)
    write(args.output, args.name, args.layers, process, args.arch, not args.no_gzip)


if __name__ == "__main__":
    main()
