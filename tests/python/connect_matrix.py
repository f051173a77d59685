"""Comes in as each case of a file says; prints for each what came of it: "ok", or what the library says of it."""

import json
import logging
import os
import sys
import time

LIMIT_S = 60


def confluent(case, text):
    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

    errors = []
    settings = {
        "bootstrap.servers": case["bootstrap"],
        "security.protocol": case["protocol"],
        "error_cb": errors.append,
        "log_level": 0,
    }
    if case["tls"]:
        settings["ssl.ca.location"] = case["ca"]
    if "certificate" in case:
        settings |= {"ssl.certificate.location": case["certificate"], "ssl.key.location": case["certificate"]}
    if "mechanism" in case:
        settings["sasl.mechanism"] = case["mechanism"]
    if case.get("mechanism") == "OAUTHBEARER":
        # The client would not send a token that it knows to have expired.
        settings["oauth_cb"] = lambda _: (case["secret"], time.time() + 3600, case["user"], {})
    elif "mechanism" in case:
        settings |= {"sasl.username": case["user"], "sasl.password": case["secret"]}
    delivered = []
    producer = Producer(settings)
    producer.produce("secure", text, partition=0, on_delivery=lambda error, message: delivered.append((error, message)))
    telling = {KafkaError._SSL: "_SSL", KafkaError._AUTHENTICATION: "_AUTHENTICATION"}
    end = time.monotonic() + LIMIT_S
    while not delivered:
        # With TLS 1.3 a client learns from its first read that its certificate was refused.
        told = [telling.get(error.code()) or ("_SSL" if "alert" in error.str() else None) for error in errors]
        if any(told):
            producer.purge()
            return next(name for name in told if name)
        assert time.monotonic() < end, [error.str() for error in errors[:5]]
        producer.poll(0.05)
    assert delivered[0][0] is None, delivered
    consumer = Consumer(settings | {"group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition("secure", 0, delivered[0][1].offset())])
    message = consumer.poll(LIMIT_S)
    assert message.value().decode() == text, message.value()
    consumer.close()
    return "ok"


class Told(logging.Handler):
    """kafka-python keeps what is wrong with TLS to its log, and tries again: the first that it says is the outcome."""

    def emit(self, record):
        said = record.getMessage()
        for word in ("CERTIFICATE_VERIFY_FAILED", "ALERT"):
            if word in said:
                tell(word)


def tell(outcome):
    print(outcome, flush=True)
    os._exit(0)


def telling(authenticate):
    """The same with SASL: what the library learns there it tells nobody. The broker's answer is lost to it when the end of the connection
    comes along with it, with Kafka as well."""
    from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError

    async def wrapped(*arguments, **named):
        try:
            return await authenticate(*arguments, **named)
        except (KafkaConnectionError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError):
            tell("refused")

    return wrapped


def kafka_python(case, text):
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.net.connection import KafkaConnection
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):
        def token(self):
            return case["secret"]

    logging.getLogger("kafka").addHandler(Told(logging.ERROR))
    KafkaConnection._sasl_authenticate = telling(KafkaConnection._sasl_authenticate)
    settings = {"bootstrap_servers": case["bootstrap"], "security_protocol": case["protocol"]}
    if case["tls"]:
        settings |= {"ssl_cafile": case["ca"], "ssl_certfile": case.get("certificate"), "ssl_keyfile": case.get("certificate")}
    if case.get("mechanism") == "OAUTHBEARER":
        settings |= {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": Provider()}
    elif "mechanism" in case:
        settings |= {"sasl_mechanism": case["mechanism"]}
        settings |= {"sasl_plain_username": case["user"], "sasl_plain_password": case["secret"]}
    producer = KafkaProducer(**settings, bootstrap_timeout_ms=LIMIT_S * 1000)
    offset = producer.send("secure", text.encode(), partition=0).get(LIMIT_S).offset
    producer.close()
    consumer = KafkaConsumer(consumer_timeout_ms=LIMIT_S * 1000, **settings)
    partition = TopicPartition("secure", 0)
    consumer.assign([partition])
    consumer.seek(partition, offset)
    assert next(consumer).value.decode() == text
    consumer.close()
    return "ok"


def alone(client, case):
    """In a child of its own, which may end anywhere and leaves no thread behind."""
    print(case["name"], end=" ", flush=True)
    child = os.fork()
    if child == 0:
        try:
            tell(client(case, f"{client.__name__}-{case['name']}"))
        except BaseException as error:
            tell(repr(error))
    os.waitpid(child, 0)


if __name__ == "__main__":
    client = {"confluent": confluent, "kafka_python": kafka_python}[sys.argv[1]]
    with open(sys.argv[2]) as file:
        cases = json.load(file)
    for case in cases:
        alone(client, case)
