"""A stand-in for a container engine: the part of the Docker API that Testcontainers uses, on a Unix socket.

A container is a copy of the image's root file system in namespaces of its own for processes, mounts and the host name.
Containers share the network of this process, so the port that a container exposes is the port of the host: run the
engine in a network namespace of its own. `engine.py SOCKET ROOTFS CONFIG`; CONFIG is the image's settings as JSON.
The containers are in the directory of the socket.
"""

import http.server
import io
import json
import os
import shutil
import signal
import socketserver
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.parse

SOCKET, ROOTFS, CONFIG = sys.argv[1:4]
IMAGE = json.load(open(CONFIG))
CONTAINERS = {}
SCRATCH = tempfile.mkdtemp(dir=os.path.dirname(SOCKET))


class Container:
    def __init__(self, name, request):
        self.id = os.urandom(32).hex()
        self.name, self.request = name, request
        self.root = os.path.join(SCRATCH, self.id)
        subprocess.run(["cp", "-a", ROOTFS, self.root], check=True)
        self.log = os.path.join(SCRATCH, self.id + ".log")
        open(self.log, "w").close()
        self.process = None
        self.hostname = request.get("Hostname") or self.id[:12]
        with open(self.root + "/etc/hosts", "w") as hosts:
            hosts.write(f"127.0.0.1 localhost\n127.0.0.1 {self.hostname}\n")

    def env(self):
        own = [entry for entry in self.request.get("Env") or []]
        return IMAGE["Env"] + own

    def command(self):
        entrypoint = self.request.get("Entrypoint") or IMAGE["Entrypoint"]
        return list(entrypoint) + list(self.request.get("Cmd") or IMAGE["Cmd"])

    def start(self):
        account, group = IMAGE["User"].split(":")
        script = (
            'hostname "$1"; mkdir -p "$2/proc" "$2/dev"; mount -t proc proc "$2/proc"; mount --rbind /dev "$2/dev"; '
            'shift 2; exec env -i "$@"'
        )
        words = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-ec", script, "sh",
                 self.hostname, self.root]
        words += self.env()
        words += [shutil.which("unshare"), "--root=" + self.root, "--wd=" + IMAGE["WorkingDir"], "--setgid=" + group,
                  "--setuid=" + account, "--"] + self.command()
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=open(self.log, "ab"),
                                        stderr=subprocess.STDOUT, start_new_session=True)

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        if self.is_running():
            # The broker has another account than its parent, whose end it does not follow then.
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def remove(self):
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)
        CONTAINERS.pop(self.id, None)

    def inspect(self):
        ports = {port: [{"HostIp": "0.0.0.0", "HostPort": port.split("/")[0]}]
                 for port in self.request.get("ExposedPorts") or {}}
        code = self.process.poll() if self.process else None
        return {
            "Id": self.id, "Name": "/" + self.name, "Created": "2026-01-01T00:00:00Z", "Image": "sha256:levada",
            "State": {"Status": "running" if self.is_running() else "exited", "Running": self.is_running(),
                      "Paused": False, "Restarting": False, "OOMKilled": False, "Dead": False,
                      "ExitCode": code or 0, "Error": "", "StartedAt": "2026-01-01T00:00:00Z",
                      "FinishedAt": "0001-01-01T00:00:00Z"},
            "Config": {"Hostname": self.hostname, "Env": self.env(), "Cmd": self.command(), "Labels": {},
                       "ExposedPorts": self.request.get("ExposedPorts") or {}, "Image": self.request.get("Image")},
            "HostConfig": {"NetworkMode": "bridge"},
            "NetworkSettings": {"IPAddress": "127.0.0.1", "Gateway": "127.0.0.1", "Ports": ports,
                                "Networks": {"bridge": {"IPAddress": "127.0.0.1", "Gateway": "127.0.0.1",
                                                        "NetworkID": "bridge"}}},
            "Mounts": [],
        }


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, form, *words):
        if os.environ.get("ENGINE_TRACE"):
            sys.stderr.write(form % words + "\n")

    def answer(self, code, value=None):
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Api-Version", "1.44")
        if code != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if "chunked" in (self.headers.get("Transfer-Encoding") or ""):
            data = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def handle_any(self):
        url = urllib.parse.urlparse(self.path)
        query = urllib.parse.parse_qs(url.query)
        parts = [part for part in url.path.split("/") if part]
        if parts and parts[0].startswith("v1."):
            parts = parts[1:]
        body = self.body()
        method = self.command
        if parts == ["_ping"]:
            return self.answer(200, "OK")
        if parts == ["version"]:
            return self.answer(200, {"Version": "28.0.0", "ApiVersion": "1.44", "MinAPIVersion": "1.24", "Os": "linux",
                                     "Arch": "amd64", "KernelVersion": os.uname().release})
        if parts == ["info"]:
            return self.answer(200, {"ServerVersion": "28.0.0", "OperatingSystem": "stand-in", "OSType": "linux",
                                     "Architecture": "x86_64", "MemTotal": 8 << 30, "NCPU": 2, "Name": "stand-in",
                                     "ID": "stand-in", "Labels": []})
        if parts[:1] == ["images"] and parts[-1] == "json":
            if len(parts) == 2:
                return self.answer(200, [])
            return self.answer(200, {"Id": "sha256:levada", "RepoTags": ["/".join(parts[1:-1])], "Config": IMAGE,
                                     "Created": "2026-01-01T00:00:00Z", "Architecture": "amd64", "Os": "linux"})
        if parts == ["containers", "create"]:
            container = Container(query.get("name", ["container"])[0], json.loads(body))
            CONTAINERS[container.id] = container
            return self.answer(201, {"Id": container.id, "Warnings": []})
        if parts[-1:] == ["prune"]:
            return self.answer(200, {})
        if parts == ["containers", "json"] or parts == ["networks"]:
            return self.answer(200, [])
        if parts[:1] == ["containers"] and len(parts) >= 2:
            return self.container(method, parts, query, body)
        return self.answer(404, {"message": f"{method} {url.path} is not a part of this stand-in"})

    def container(self, method, parts, query, body):
        found = [one for one in CONTAINERS.values() if one.id.startswith(parts[1]) or one.name == parts[1]]
        if not found:
            return self.answer(404, {"message": f"no container {parts[1]}"})
        container, verb = found[0], parts[2] if len(parts) > 2 else ""
        if method == "DELETE":
            container.remove()
            return self.answer(204)
        if verb == "json":
            return self.answer(200, container.inspect())
        if verb == "start":
            container.start()
            return self.answer(204)
        if verb in ("kill", "stop"):
            container.stop()
            return self.answer(204)
        if verb == "archive" and method == "PUT":
            place = container.root + query["path"][0]
            if not os.path.isdir(place):
                return self.answer(404, {"message": "no directory " + query["path"][0]})
            unpacked = tempfile.mkdtemp(dir=SCRATCH)
            with tarfile.open(fileobj=io.BytesIO(body)) as archive:
                archive.extractall(unpacked, numeric_owner=True)
                # A file appears with its content and mode: the container polls for it.
                for member in archive.getmembers():
                    if member.isfile():
                        os.rename(os.path.join(unpacked, member.name), os.path.join(place, member.name))
            return self.answer(200)
        if verb == "logs":
            return self.logs(container, query.get("follow", ["0"])[0] in ("1", "true"))
        return self.answer(404, {"message": f"{method} {verb} is not a part of this stand-in"})

    def logs(self, container, is_followed):
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with open(container.log, "rb") as log:
            while True:
                is_last = not is_followed or not container.is_running()
                text = log.read(65536)
                if text:
                    frame = struct.pack(">BxxxI", 1, len(text)) + text
                    self.wfile.write(b"%x\r\n" % len(frame) + frame + b"\r\n")
                    self.wfile.flush()
                elif is_last:
                    break
                else:
                    time.sleep(0.02)
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def get_request(self):
        request, _ = super().get_request()
        return request, ("unix", 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        Server(SOCKET, Handler).serve_forever()
    finally:
        for container in list(CONTAINERS.values()):
            container.remove()
        shutil.rmtree(SCRATCH, ignore_errors=True)
