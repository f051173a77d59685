// Produces until a line comes on standard input. The arguments, the kinds, the output and the journal are those of load.py.

import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Load {
    /** Records of a transaction. */
    static final int TRANSACTION = 60;

    static volatile boolean stop = false;

    /** A record with the number that its partition has for it. */
    record Numbered(int partition, long number, byte[] value) {}

    final String topic;
    final String kind;
    final double rate;
    final int size;
    final long[] numbers;
    final PrintWriter journal;
    final KafkaProducer<byte[], byte[]> producer;
    final Random random = new Random(7);
    final long start = System.nanoTime();
    /** Number of records that were made. */
    long made = 0;
    /** Acknowledgements that were counted, and those that were printed. */
    long count = 0;
    long reported = 0;

    public static void main(String[] words) throws Exception {
        Thread listener = new Thread(() -> {
            try {
                System.in.read();
            } catch (Exception closed) {
                // The test has ended.
            }
            stop = true;
        });
        listener.setDaemon(true);
        listener.start();
        new Load(words).run();
    }

    Load(String[] words) throws Exception {
        topic = words[1];
        numbers = new long[Integer.parseInt(words[2])];
        journal = new PrintWriter(Files.newBufferedWriter(Path.of(words[3])), true);
        kind = words[4];
        rate = words.length > 5 ? Double.parseDouble(words[5]) : Double.MAX_VALUE;
        size = words.length > 6 ? Integer.parseInt(words[6]) : 1000;
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", words[0], "acks", "all", "enable.idempotence",
                !kind.equals("plain"), "request.timeout.ms", 10000, "delivery.timeout.ms", kind.equals("plain") ? 15000 : 300000,
                "linger.ms", 2, "reconnect.backoff.ms", 20, "reconnect.backoff.max.ms", 100, "retry.backoff.ms", 20,
                "retry.backoff.max.ms", 100));
        if (kind.equals("transactional")) {
            settings.putAll(Map.of("transactional.id", topic, "transaction.timeout.ms", 300000));
        }
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    void run() throws Exception {
        if (kind.equals("transactional")) {
            again(producer::initTransactions);
        }
        while (!stop) {
            if (kind.equals("transactional")) {
                transact();
            } else {
                Numbered one = next();
                send(one, (metadata, failed) -> {
                    if (failed == null) {
                        note(one, metadata.offset());
                    } else if (kind.equals("idempotent")) {
                        fail(failed);
                    }
                });
            }
            keepPace();
        }
        producer.close(Duration.ofSeconds(120));
        journal.close();
        System.out.println("produced " + made);
    }

    Numbered next() {
        int partition = random.nextInt(numbers.length);
        byte[] value = new byte[Long.BYTES + random.nextInt(size)];
        random.nextBytes(value);
        ByteBuffer.wrap(value).putLong(numbers[partition]);
        made += 1;
        return new Numbered(partition, numbers[partition]++, value);
    }

    void send(Numbered one, Callback callback) {
        producer.send(new ProducerRecord<>(topic, one.partition(), null, one.value()), callback);
    }

    synchronized void note(Numbered one, long offset) {
        journal.println(one.partition() + " " + one.number() + " " + offset);
        count += 1;
        if (count >= reported + 500) {
            reported = count;
            System.out.println(count);
        }
    }

    void keepPace() throws InterruptedException {
        while (made > rate * (System.nanoTime() - start) / 1e9 && !stop) {
            Thread.sleep(5);
        }
    }

    /** Has records committed. Those of an aborted transaction are sent again with their numbers. */
    void transact() throws InterruptedException {
        List<Numbered> records = new ArrayList<>();
        long[] offsets = new long[TRANSACTION];
        boolean isCommitted = false;
        while (!isCommitted) {
            isCommitted = attempt(records, offsets);
        }
        for (int index = 0; index < records.size(); index++) {
            note(records.get(index), offsets[index]);
        }
    }

    /** Adds records and has all of them committed; false if the transaction was aborted. */
    boolean attempt(List<Numbered> records, long[] offsets) throws InterruptedException {
        try {
            producer.beginTransaction();
            for (int index = 0; index < TRANSACTION && (index < records.size() || !stop); index++) {
                if (index == records.size()) {
                    records.add(next());
                }
                int place = index;
                send(records.get(index), (metadata, failed) -> offsets[place] = failed == null ? metadata.offset() : -1);
                keepPace();
            }
            again(producer::commitTransaction);
            return true;
        } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException lost) {
            throw fail(lost);
        } catch (KafkaException failed) {
            System.err.println("aborted: " + failed);
            again(producer::abortTransaction);
            return false;
        }
    }

    static RuntimeException fail(Exception reason) {
        System.out.println("failed: " + reason);
        Runtime.getRuntime().halt(1);
        throw new IllegalStateException(reason);
    }

    /** Repeats a call that the client says may be repeated. */
    static void again(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException late) {
                // A broker does not answer.
            }
        }
    }
}
