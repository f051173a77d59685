"""aiokafka."""

import asyncio

import corpus
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


def produce(bootstrap, topic, codec, records):
    async def run():
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if codec == "none" else codec,
            linger_ms=20,
            enable_idempotence=True,
            max_batch_size=262144,
        )
        await producer.start()
        sent = [
            await producer.send(
                topic, value=value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp
            )
            for partition, timestamp, key, value, headers in records
        ]
        await asyncio.gather(*sent)
        await producer.stop()

    asyncio.run(run())


def consume(bootstrap, topic, partitions, count, add):
    async def run(count):
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, check_crcs=True, auto_offset_reset="earliest"
        )
        await consumer.start()
        consumer.assign([TopicPartition(topic, partition) for partition in partitions])
        while count > 0:
            polled = await consumer.getmany(timeout_ms=30000)
            assert polled, f"{count} records never came"
            for messages in polled.values():
                for message in messages:
                    add(
                        message.partition,
                        message.offset,
                        message.timestamp,
                        message.key,
                        message.value,
                        message.headers,
                    )
                count -= len(messages)
        await consumer.stop()

    asyncio.run(run(count))


if __name__ == "__main__":
    corpus.main(produce, consume)
