"""Wraps a root file system as an image that `ctr images import` and `docker load` take:

  docker-archive.py ROOTFS.tar OUT.tar NAME:TAG [ENTRYPOINT...]

The image has one layer, no user and no command of its own.
"""

import hashlib
import io
import json
import platform
import sys
import tarfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def main(rootfs, out, name, *entrypoint):
    with open(rootfs, "rb") as file:
        layer = digest(file)
    machine = platform.machine()
    config = json.dumps({
        "architecture": ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": {"Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], "Entrypoint": list(entrypoint) or None},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
    }).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{layer}/layer.tar"]}]
    with tarfile.open(out, "w") as archive:
        archive.add(rootfs, arcname=f"{layer}/layer.tar")
        for path, content in ((config_name, config), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def digest(file):
    """SHA-256 of a file too large to be read whole."""
    state = hashlib.sha256()
    while chunk := file.read(1 << 20):
        state.update(chunk)
    return state.hexdigest()


main(*sys.argv[1:])
