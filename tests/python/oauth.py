"""OAUTHBEARER: `keys DIR` makes a key and its JSON Web Key Set; `token DIR SECONDS` prints a token that is valid for so long."""

import base64
import json
import pathlib
import subprocess
import sys
import time


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
    return f"{signed}.{encode(signature)}"


if __name__ == "__main__":
    if sys.argv[1] == "keys":
        keys(pathlib.Path(sys.argv[2]))
    else:
        print(token(pathlib.Path(sys.argv[2]), int(sys.argv[3])))
