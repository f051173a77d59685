"""Writes and reads records by the serializers of Confluent's client.

schemas.py produce BOOTSTRAP REGISTRY TOPIC: an order in each language; Protobuf as the second message of its file.
schemas.py consume BOOTSTRAP REGISTRY TOPIC AVRO|JSON|PROTOBUF COUNT: prints the values as JSON, one a line.
"""

import functools
import json
import sys

import httpx2
from confluent_kafka import Consumer, Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

AVRO = json.dumps({
    "type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": [
            {"name": "name", "type": "string"}, {"name": "price", "type": "double"}]}}}]})
JSON = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": "Order", "type": "object",
                   "properties": {"id": {"type": "integer"}}})
ORDER = {"id": 1 << 40, "note": "für", "items": [{"name": "a", "price": 1.5}]}


@functools.cache
def message():
    """The class of shop.Order, the second message of its file."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Head").field.add(name="n", number=1, type=kinds.TYPE_INT32, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=kinds.TYPE_INT64, label=1)
    order.field.add(name="note", number=2, type=kinds.TYPE_STRING, label=1)
    order.field.add(name="items", number=3, type=kinds.TYPE_MESSAGE, label=3, type_name=".shop.Order.Item")
    item = order.nested_type.add(name="Item")
    item.field.add(name="name", number=1, type=kinds.TYPE_STRING, label=1)
    item.field.add(name="price", number=2, type=kinds.TYPE_DOUBLE, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def patiently(call, *words):
    """Calls a function again if the registry has left its request without an answer."""
    for _ in range(2):
        try:
            return call(*words)
        except httpx2.TimeoutException:
            pass
    return call(*words)


def produce(bootstrap, registry, topic):
    client = SchemaRegistryClient({"url": registry, "timeout": 20})
    order = json_format.ParseDict(ORDER, message()())
    producer = Producer({"bootstrap.servers": bootstrap})
    # Each language has a subject of its own, by the name of its topic.
    for language, serializer, value in [
        ("avro", AvroSerializer(client, AVRO), ORDER),
        ("json", JSONSerializer(JSON, client), {"id": 5, "more": [1, "x"]}),
        ("protobuf", ProtobufSerializer(message(), client), order),
    ]:
        context = SerializationContext(f"{topic}-{language}", MessageField.VALUE)
        producer.produce(topic, key=language, value=patiently(serializer, value, context))
    assert producer.flush(60) == 0


def consume(bootstrap, registry, topic, language, count):
    client = SchemaRegistryClient({"url": registry, "timeout": 20})
    deserializer = {
        "AVRO": lambda: AvroDeserializer(client),
        "JSON": lambda: JSONDeserializer(JSON, schema_registry_client=client),
        "PROTOBUF": lambda: ProtobufDeserializer(message(), {"use.deprecated.format": False}),
    }[language]()
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "schemas", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    left = int(count)
    while left:
        record = consumer.poll(60)
        assert record is not None and record.error() is None, record and record.error()
        value = patiently(deserializer, record.value(), SerializationContext(topic, MessageField.VALUE))
        if language == "PROTOBUF":
            value = json_format.MessageToDict(value, preserving_proto_field_name=True)
        print(json.dumps(value, sort_keys=True))
        left -= 1
    consumer.close()


{"produce": produce, "consume": consume}[sys.argv[1]](*sys.argv[2:])
