// The clients of the exactly-once check that speak the second transaction protocol and the new group protocol; what they
// do and write down is described in exactly_once.py.

import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class ExactlyOnce {
    static volatile boolean stop = false;
    static String bootstrap;
    static Random random;

    public static void main(String[] words) throws Exception {
        Thread listener = new Thread(() -> {
            try {
                System.in.read();
            } catch (Exception closed) {
                // Whoever started this has gone: that is a reason to stop as well.
            }
            stop = true;
        });
        listener.setDaemon(true);
        listener.start();
        bootstrap = words[1];
        random = new Random(Long.parseLong(words[4]));
        if (words[0].equals("writer")) {
            new Writer(words[2], Integer.parseInt(words[3]), words[5]).run();
        } else {
            new Copier(words[2], words[5]).run();
        }
    }

    static Map<String, Object> connection() {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap, "reconnect.backoff.ms", 20,
                "reconnect.backoff.max.ms", 100, "retry.backoff.ms", 20, "retry.backoff.max.ms", 100));
    }

    static KafkaProducer<String, String> opened(String name, int timeoutMs) {
        Map<String, Object> settings = connection();
        settings.put("transactional.id", name);
        settings.put("transaction.timeout.ms", timeoutMs);
        KafkaProducer<String, String> made =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        made.initTransactions();
        return made;
    }

    /** Repeats a call that the client says may be repeated. */
    static void again(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException late) {
                // The broker is down.
            }
        }
    }

    static class Writer {
        final String name;
        final int[] numbers;
        final PrintWriter journal;
        KafkaProducer<String, String> client;

        Writer(String name, int partitions, String journal) throws Exception {
            this.name = name;
            this.numbers = new int[partitions];
            this.journal = new PrintWriter(Files.newBufferedWriter(Path.of(journal)), true);
            this.client = opened(name, 3000);
        }

        void run() throws Exception {
            for (int transaction = 0; !stop; transaction++) {
                StringBuilder sent = new StringBuilder();
                String outcome = attempt(transaction, random.nextInt(100), sent);
                journal.println(transaction + " " + outcome + sent);
                Thread.sleep(random.nextInt(100));
            }
            client.close(Duration.ZERO);
            opened(name, 3000).close();
        }

        void replace() {
            client.close(Duration.ZERO);
            client = opened(name, 3000);
        }

        String attempt(int transaction, int ending, StringBuilder sent) throws Exception {
            boolean askedToCommit = false;
            try {
                client.beginTransaction();
                send(transaction, sent);
                if (ending < 20) {
                    again(client::abortTransaction);
                    return "aborted";
                }
                if (ending < 28) {
                    replace();
                    return "aborted";
                }
                if (ending < 36) {
                    return meetRival();
                }
                if (ending < 40) {
                    Thread.sleep(5000);
                }
                askedToCommit = true;
                again(client::commitTransaction);
                return "committed";
            } catch (KafkaException failed) {
                replace();
                return askedToCommit ? "unknown" : "aborted";
            }
        }

        void send(int transaction, StringBuilder sent) {
            int count = 1 + random.nextInt(29);
            for (int index = 0; index < count; index++) {
                int partition = random.nextInt(numbers.length);
                int number = numbers[partition]++;
                sent.append(' ').append(partition).append(':').append(number);
                String value = name + " " + transaction + " " + number + " " + "x".repeat(random.nextInt(500));
                client.send(new ProducerRecord<>("input", partition, null, value));
            }
            if (random.nextInt(10) < 3) {
                client.flush();
            }
        }

        /** Another producer takes the name: from then on this one must not be able to commit. */
        String meetRival() {
            KafkaProducer<String, String> rival = opened(name, 3000);
            try {
                again(client::commitTransaction);
            } catch (KafkaException fenced) {
                client.close(Duration.ZERO);
                client = rival;
                return "aborted";
            }
            throw new IllegalStateException(name + " has committed after it was fenced");
        }
    }

    static class Copier implements ConsumerRebalanceListener {
        final String topic;
        final KafkaProducer<String, String> producer;
        final KafkaConsumer<String, String> consumer;

        Copier(String name, String topic) {
            this.topic = topic;
            this.producer = opened(name, 5000 + random.nextInt(10000));
            Map<String, Object> settings = connection();
            settings.put("group.id", topic);
            settings.put("group.protocol", "consumer");
            settings.put("auto.offset.reset", "earliest");
            settings.put("isolation.level", "read_committed");
            settings.put("enable.auto.commit", false);
            this.consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of("input"), this);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            // Called between transactions only.
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            // The consumer begins where the group has committed.
        }

        void run() {
            while (!stop) {
                var records = consumer.poll(Duration.ofMillis(300));
                var member = consumer.groupMetadata();
                if (records.isEmpty()) {
                    continue;
                }
                try {
                    producer.beginTransaction();
                    Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
                    for (var record : records) {
                        String value = record.offset() + " " + record.value();
                        producer.send(new ProducerRecord<>(topic, record.partition(), null, value));
                        ends.put(new TopicPartition("input", record.partition()),
                                new OffsetAndMetadata(record.offset() + 1));
                    }
                    again(() -> producer.sendOffsetsToTransaction(ends, member));
                    if (random.nextInt(100) < 15) {
                        again(producer::abortTransaction);
                        rewind();
                    } else {
                        again(producer::commitTransaction);
                    }
                } catch (KafkaException failed) {
                    System.out.println("over: " + failed);
                    return;
                }
            }
            consumer.close();
            producer.close();
        }

        void rewind() {
            var committed = consumer.committed(consumer.assignment());
            for (TopicPartition partition : consumer.assignment()) {
                OffsetAndMetadata place = committed.get(partition);
                consumer.seek(partition, place == null ? 0 : place.offset());
            }
        }
    }
}
