#!/usr/bin/env python3
"""A TCP proxy that records Kafka frames: record.py LISTEN_PORT BROKER_PORT OUT_DIR

Passes every byte through unchanged and keeps, for each API and version it sees, a few of the request and
response frames (without their size) as OUT_DIR/<key>-<version>-<n>.{request,response}. Frames are told apart by
their content; at most KEEP pairs of each version, none above MAX_BYTES.
"""
import os, socket, struct, sys, threading

KEEP, MAX_BYTES = 3, 4096
listen, broker, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.makedirs(out, exist_ok=True)
lock, seen = threading.Lock(), {}


def frames(sock, peer, on_frame):
    buffer = b""
    try:
        while chunk := sock.recv(65536):
            buffer += chunk
            done = 0
            while len(buffer) - done >= 4:
                (size,) = struct.unpack_from(">i", buffer, done)
                if len(buffer) - done - 4 < size:
                    break
                on_frame(buffer[done + 4 : done + 4 + size])
                done += 4 + size
            buffer = buffer[done:]
            peer.sendall(chunk)
    except OSError:
        pass
    for s in (sock, peer):
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def keep(request, response):
    key, version = struct.unpack_from(">hh", request)
    if max(len(request), len(response)) > MAX_BYTES:
        return
    with lock:
        # A frame of a new length is likely to show something new.
        known = seen.setdefault((key, version), set())
        shape = (len(request), len(response))
        if shape in known or len(known) >= KEEP:
            return
        known.add(shape)
        stem = os.path.join(out, f"{key}-{version}-{len(known)}")
    for kind, frame in (("request", request), ("response", response)):
        with open(f"{stem}.{kind}", "wb") as file:
            file.write(frame)


def serve(client):
    server = socket.create_connection(("127.0.0.1", broker))
    waiting = {}

    def asked(frame):
        waiting[struct.unpack_from(">i", frame, 4)[0]] = frame

    def answered(frame):
        request = waiting.pop(struct.unpack_from(">i", frame)[0], None)
        if request:
            keep(request, frame)

    threading.Thread(target=frames, args=(client, server, asked), daemon=True).start()
    frames(server, client, answered)


door = socket.create_server(("127.0.0.1", listen))
while True:
    client, _ = door.accept()
    threading.Thread(target=serve, args=(client,), daemon=True).start()
