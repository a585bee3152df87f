"""Images put together entry by entry, so that a test says exactly what is in a layer, and Debian's
docker-registry to put them in. The benchmark uses it too, so there is nothing of pytest here."""

import base64
import contextlib
import gzip
import hashlib
import http.client
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from cay_harness import read_text, wait_until

OCI = "application/vnd.oci.image"
DOCKER = "application/vnd.docker"
MANIFEST = f"{OCI}.manifest.v1+json"
INDEX = f"{OCI}.index.v1+json"
USER, PASSWORD = "robin", "open-sesame-7"
# bcrypt of PASSWORD, which is all that docker-registry takes.
PASSWORD_LINE = f"{USER}:$2b$05$a0c0QZzUsICGb7UPYljJGeS2Wr3QExotiDUWLaly0UqgCNFxF1HFa\n"


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def basic(user=USER, password=PASSWORD):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


# ---- layers, entry by entry ----


def entry(name, type=tarfile.REGTYPE, data=b"", mode=0o644, uid=0, gid=0, mtime=1_600_000_000,
          target="", xattrs=None, device=(0, 0), pax=None):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid, info.mtime = type, mode, uid, gid, mtime
    info.linkname, info.size = target, len(data)
    info.devmajor, info.devminor = device
    info.pax_headers = dict(pax or {})
    for key, value in (xattrs or {}).items():
        info.pax_headers[f"SCHILY.xattr.{key}"] = value
    return info, data


def folder(name, mode=0o755, **how):
    return entry(name, tarfile.DIRTYPE, mode=mode, **how)


def text(name, data="", **how):
    return entry(name, data=data.encode() if isinstance(data, str) else data, **how)


def symlink(name, target, **how):
    return entry(name, tarfile.SYMTYPE, target=target, mode=0o777, **how)


def hardlink(name, target, **how):
    return entry(name, tarfile.LNKTYPE, target=target, **how)


def without(name):
    """A whiteout: what is called so in the layers below is gone."""
    head, _, tail = name.rpartition("/")
    return text(f"{head}/.wh.{tail}" if head else f".wh.{tail}")


def opaque(name):
    return text(f"{name}/.wh..wh..opq")


def layer(*entries):
    """A tar archive (pax) of these entries, in this order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


PASSWD = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n"
APPLETS = ("sh", "ls", "cat", "echo", "id", "sleep", "wc", "touch", "stat", "pwd", "env", "true",
           "rm", "mkdir", "head", "dd", "sync", "find", "sort", "printf", "test", "readlink")


def busybox_entries():
    """A root file system that runs: one static program, its names, and two users."""
    names = ("bin", "etc", "root", "proc", "sys", "dev", "usr", "usr/bin", "home", "var")
    return [*(folder(n) for n in names), folder("tmp", 0o1777),
            folder("home/app", 0o750, uid=1000, gid=1001),
            text("bin/busybox", Path(shutil.which("busybox")).read_bytes(), mode=0o755),
            *(symlink(f"bin/{n}", "busybox") for n in APPLETS),
            text("etc/passwd", PASSWD), text("etc/group", "root:x:0:\nstaff:x:1001:app\n"),
            text("etc/mark", "of the image\n")]


_base = []


def base_layer():
    """Made once: every image of the tests that runs stands on it, and so shares it."""
    if not _base:
        _base.append(layer(*busybox_entries()))
    return _base[0]


def squeeze(data, coding, level=1):
    if coding == "gzip":
        return gzip.compress(data, level, mtime=0)
    if coding == "zstd":
        return subprocess.run(["zstd", "-q", f"-{level}", "-c"], input=data, capture_output=True,
                              check=True).stdout
    return data


def suffix(coding, docker):
    if docker:
        return {"gzip": f"{DOCKER}.image.rootfs.diff.tar.gzip",
                None: f"{DOCKER}.image.rootfs.diff.tar"}[coding]
    return f"{OCI}.layer.v1.tar" + (f"+{coding}" if coding else "")


class Image:
    """Blobs and a manifest, as a registry or an OCI layout holds them. `how` changes a part."""

    def __init__(self, *layers, config=None, coding="gzip", docker=False, platform="amd64",
                 created="2024-01-02T03:04:05Z", level=1):
        self.layers = list(layers)
        self.blobs = {}
        self.parts = []
        for data in layers:
            blob = squeeze(data, coding, level)
            self.parts.append({"mediaType": suffix(coding, docker), **self.add(blob)})
        self.config = {"architecture": platform, "os": "linux", "created": created,
                       "config": config or {},
                       "rootfs": {"type": "layers", "diff_ids": [sha256(d) for d in layers]}}
        self.type = f"{DOCKER}.distribution.manifest.v2+json" if docker else MANIFEST
        config_type = f"{DOCKER}.container.image.v1+json" if docker else f"{OCI}.config.v1+json"
        self.document = {"schemaVersion": 2, "mediaType": self.type,
                         "config": {"mediaType": config_type,
                                    **self.add(json.dumps(self.config).encode())},
                         "layers": self.parts}

    def add(self, blob):
        digest = sha256(blob)
        self.blobs[digest] = blob
        return {"digest": digest, "size": len(blob)}

    @property
    def manifest(self):
        return json.dumps(self.document).encode()

    @property
    def digest(self):
        return sha256(self.manifest)

    @property
    def id(self):
        return self.document["config"]["digest"]

    def descriptor(self, **more):
        return {"mediaType": self.type, "digest": self.digest, "size": len(self.manifest), **more}

    def layout(self, path, name="latest"):
        """Writes an OCI layout directory and returns it."""
        blobs = path / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        for digest, data in {**self.blobs, self.digest: self.manifest}.items():
            (blobs / digest[7:]).write_bytes(data)
        (path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        note = {"annotations": {"org.opencontainers.image.ref.name": name}} if name else {}
        (path / "index.json").write_text(json.dumps(
            {"schemaVersion": 2, "mediaType": INDEX, "manifests": [self.descriptor(**note)]}))
        return path


def index_of(**images):
    """An index with an entry for each architecture."""
    return {"schemaVersion": 2, "mediaType": INDEX,
            "manifests": [image.descriptor(platform={"os": "linux", "architecture": arch})
                          for arch, image in images.items()]}


# ---- a real registry ----


class Registry:
    """Debian's docker-registry on a free port of the loopback, with a folder of its own."""

    def __init__(self, where, storage=None, auth=False, tls=None):
        self.where = Path(where)
        self.where.mkdir(parents=True, exist_ok=True)
        self.storage = Path(storage or self.where / "storage")
        config = {"version": "0.1", "log": {"level": "info", "accesslog": {"disabled": True}},
                  "storage": {"filesystem": {"rootdirectory": str(self.storage)},
                              "delete": {"enabled": True}},
                  "http": {"addr": "127.0.0.1:0", "secret": "not one"}}
        self.tls = tls
        if tls:
            config["http"]["tls"] = {"certificate": str(tls["cert"]), "key": str(tls["key"])}
        if auth:
            (self.where / "htpasswd").write_text(PASSWORD_LINE)
            config["auth"] = {"htpasswd": {"realm": "cay", "path": str(self.where / "htpasswd")}}
        (self.where / "config.yml").write_text(json.dumps(config))  # JSON is YAML
        self.process = None

    def start(self):
        log = self.where / "log"
        with open(log, "wb") as out:
            self.process = subprocess.Popen(
                ["docker-registry", "serve", str(self.where / "config.yml")], stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, env={"PATH": os.environ["PATH"], "OTEL_TRACES_EXPORTER": "none"})

        def listening():
            assert self.process.poll() is None, read_text(log)
            return re.search(r"listening on 127\.0\.0\.1:(\d+)", read_text(log))

        self.port = int(wait_until(listening, 60, "docker-registry").group(1))
        self.host = f"127.0.0.1:{self.port}"
        return self

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def request(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
            assert answer.status < 300, (method, path, answer.status, data)
            return answer, data
        finally:
            connection.close()

    def put_blob(self, repo, digest, data):
        answer, _ = self.request("POST", f"/v2/{repo}/blobs/uploads/", **{"Content-Length": "0"})
        where = answer.headers["Location"].split(f":{self.port}", 1)[-1]
        self.request("PUT", f"{where}{'&' if '?' in where else '?'}digest={digest}", data,
                     **{"Content-Type": "application/octet-stream"})

    def push(self, name, image):
        """Puts an image (or, with its images pushed before, an index) under REPO:TAG; returns the
        whole reference."""
        repo, _, tag = name.partition(":")
        if isinstance(image, Image):
            for digest, data in image.blobs.items():
                self.put_blob(repo, digest, data)
            kind, body = image.type, image.manifest
        else:
            kind, body = image["mediaType"], json.dumps(image).encode()
        self.request("PUT", f"/v2/{repo}/manifests/{tag or sha256(body)}", body,
                     **{"Content-Type": kind})
        return self.ref(name)

    def push_index(self, name, **images):
        repo = name.partition(":")[0]
        for image in images.values():
            for digest, data in image.blobs.items():
                self.put_blob(repo, digest, data)
            self.request("PUT", f"/v2/{repo}/manifests/{image.digest}", image.manifest,
                         **{"Content-Type": image.type})
        return self.push(name, index_of(**images))

    def ref(self, name):
        return f"{self.host}/{name}"


def make_certificates(where):
    """An authority of our own and a certificate of it for 127.0.0.1 and localhost."""
    where.mkdir()

    def openssl(*words):
        subprocess.run(["openssl", *map(str, words)], cwd=where, check=True, capture_output=True)

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", "ca.key", "-out", "ca.pem", "-days", 2, "-subj", "/CN=tests of cay")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
            "key.pem", "-out", "csr.pem", "-subj", "/CN=127.0.0.1")
    (where / "ext").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl("x509", "-req", "-in", "csr.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", 2,
            "-CAcreateserial", "-extfile", "ext", "-out", "cert.pem")
    return {"ca": where / "ca.pem", "cert": where / "cert.pem", "key": where / "key.pem"}


def disk_usage(*paths):
    """Bytes on disk below, each inode once."""
    seen, total = set(), 0
    for path in paths:
        for top, names, files in os.walk(path):
            for name in [top] + [os.path.join(top, f) for f in files]:
                with contextlib.suppress(OSError):
                    info = os.lstat(name)
                    if (info.st_dev, info.st_ino) not in seen:
                        seen.add((info.st_dev, info.st_ino))
                        total += info.st_blocks * 512
    return total
