"""A client that shows who it is by SASL: prints "in", or "out" with the client's own name for what the broker said."""

import sys
import time

LIMIT_S = 30


def confluent(bootstrap, mechanism, user, password):
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

    errors = []
    client = AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "error_cb": errors.append,
            "log_level": 0,
        }
    )
    describing = client.describe_cluster(request_timeout=LIMIT_S)
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        client.poll(0.05)
        if any(error.code() == KafkaError._AUTHENTICATION for error in errors):
            return "out _AUTHENTICATION"
        if describing.done():
            return f"in {describing.result().controller.id}"
    return f"nothing in time: {errors}"


def kafka_python(bootstrap, mechanism, user, password):
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    try:
        client = KafkaAdminClient(
            bootstrap_servers=bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
            bootstrap_timeout_ms=2000,
        )
        return f"in {client.describe_cluster()['controller_id']}"
    except KafkaError as error:
        return f"out {type(error).__name__}"


if __name__ == "__main__":
    bootstrap, client, mechanism, user, password = sys.argv[1:]
    print(globals()[client](bootstrap, mechanism, user, password))
