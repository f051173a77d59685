"""OAUTHBEARER: `keys DIR` makes a key and its JSON Web Key Set; `BOOTSTRAP DIR SECONDS` comes in with a token that is valid for so
long, and prints "in" or "out" with the client's own name for what the broker said."""

import base64
import json
import pathlib
import subprocess
import sys
import time

LIMIT_S = 30


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*arguments, data=b""):
    return subprocess.run(["openssl", *arguments], input=data, capture_output=True, check=True).stdout


def keys(folder):
    key = folder / "key.pem"
    openssl("genrsa", "-out", str(key), "2048")
    modulus = openssl("rsa", "-in", str(key), "-noout", "-modulus").decode().strip().split("=")[1]
    jwk = {"kty": "RSA", "kid": "one", "use": "sig", "n": encode(bytes.fromhex(modulus)), "e": "AQAB"}
    (folder / "jwks.json").write_text(json.dumps({"keys": [jwk]}))


def token(folder, seconds):
    now = int(time.time())
    header = {"alg": "RS256", "kid": "one"}
    claims = {"sub": "olga", "iat": now, "exp": now + seconds, "iss": "test", "aud": ["kafka"]}
    signed = ".".join(encode(json.dumps(part).encode()) for part in (header, claims))
    signature = openssl("dgst", "-sha256", "-sign", str(folder / "key.pem"), data=signed.encode())
    return f"{signed}.{encode(signature)}", now + seconds


def come_in(bootstrap, folder, seconds):
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

    value, expires = token(folder, seconds)
    errors = []
    client = AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            # The client would not send a token that it knows to have expired.
            "oauth_cb": lambda _: (value, max(expires, time.time() + 60), "olga", {}),
            "error_cb": errors.append,
            "log_level": 0,
        }
    )
    deadline = time.monotonic() + LIMIT_S
    describing = None
    while time.monotonic() < deadline:
        client.poll(0.05)
        describing = describing or client.describe_cluster(request_timeout=LIMIT_S)
        if any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            return "out _AUTHENTICATION"
        if describing.done():
            return f"in {describing.result().controller.id}"
    return f"nothing in time: {errors}"


if __name__ == "__main__":
    if sys.argv[1] == "keys":
        keys(pathlib.Path(sys.argv[2]))
    else:
        print(come_in(sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])))
