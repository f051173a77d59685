import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Members of a share group that work at random, or the writer of their records, until standard input ends. Both write down
 * what happens, a line at a time, so that a ledger can compare the journals:
 *
 * <pre>
 * writer BOOTSTRAP TOPIC PARTITIONS SEED JOURNAL
 *     OUTCOME PARTITION OFFSET:VALUE...          committed, aborted or unknown; the offset is -1 if it is not known
 *     leader TIME TOPIC PARTITION BROKER         a new leader of a partition of the topic, or of the states of share groups
 * workers BOOTSTRAP TOPIC GROUP MEMBERS SEED JOURNAL
 *     d MEMBER TIME PARTITION OFFSET COUNT VALUE     a delivery; the client got the record after this time
 *     s MEMBER TIME PARTITION OFFSET COUNT KIND      an acknowledgement that the member sends
 *     a MEMBER TIME PARTITION OFFSET COUNT KIND RESULT    its result: ok, or the class of an error; the kind is unclear
 *                                                         if the result is of one of several acknowledgements
 *     e MEMBER TEXT                                  an error of a poll or a commit
 * </pre>
 *
 * <p>Times are microseconds of the machine's clock that only advances. Workers print the number of records whose acceptance
 * was confirmed so far, in all of them.
 */
public final class ShareWorkers {
    private static volatile boolean stop = false;
    private static PrintWriter journal;
    private static final AtomicLong ACCEPTED = new AtomicLong();

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
        journal = new PrintWriter(Files.newBufferedWriter(Path.of(words[words.length - 1])));
        long seed = Long.parseLong(words[words.length - 2]);
        if (words[0].equals("writer")) {
            Thread watcher = new Thread(() -> watchLeaders(words[1], List.of(words[2], "__share_group_state")));
            watcher.setDaemon(true);
            watcher.start();
            new Writer(words[1], words[2], Integer.parseInt(words[3]), new Random(seed)).run();
            return;
        }
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < Integer.parseInt(words[4]); number++) {
            Worker worker = new Worker(words, number, new Random(seed + number));
            threads.add(new Thread(worker));
        }
        threads.forEach(Thread::start);
        while (threads.stream().anyMatch(Thread::isAlive)) {
            System.out.println(ACCEPTED.get());
            Thread.sleep(100);
        }
        System.out.println(ACCEPTED.get());
    }

    private static void watchLeaders(String bootstrap, List<String> topics) {
        Map<String, Integer> known = new HashMap<>();
        try (Admin admin = Admin.create(connection(bootstrap))) {
            while (!stop) {
                try {
                    admin.describeTopics(topics).topicNameValues().forEach((topic, described) -> note(topic, described, known));
                    Thread.sleep(200);
                } catch (KafkaException | InterruptedException unanswered) {
                    // Brokers are down.
                }
            }
        }
    }

    /** Notes the leaders of a topic that are not known. A topic may not exist yet. */
    private static void note(String topic, KafkaFuture<TopicDescription> described, Map<String, Integer> known) {
        try {
            for (TopicPartitionInfo partition : described.get().partitions()) {
                String place = topic + " " + partition.partition();
                int leader = partition.leader() == null ? -1 : partition.leader().id();
                if (!Integer.valueOf(leader).equals(known.put(place, leader))) {
                    note("leader " + System.nanoTime() / 1_000 + " " + place + " " + leader + "\n");
                }
            }
        } catch (ExecutionException | InterruptedException unknown) {
            // The next round asks again.
        }
    }

    private static synchronized void note(CharSequence lines) {
        journal.append(lines);
        journal.flush();
    }

    private static Map<String, Object> connection(String bootstrap) {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap, "reconnect.backoff.ms", 20,
                "reconnect.backoff.max.ms", 100, "retry.backoff.ms", 20, "retry.backoff.max.ms", 100));
    }

    private static final class Worker implements Runnable {
        private static final int POLL_RECORDS = 20;

        private record Place(int partition, long offset) { }

        private record Sent(int count, String kind) { }

        private final KafkaShareConsumer<String, String> consumer;
        private final String name;
        private final boolean isExplicit;
        private final Random random;
        /** Start of the last poll that has returned all records that the client had. */
        private long emptied = now();
        /** Renewals without a result. */
        private int renewals = 0;
        /** Polls since there was one. */
        private int polls = 0;
        /** Acknowledgements without a result. */
        private final Map<Place, Deque<Sent>> sent = new HashMap<>();
        /** Records with acknowledgements of several kinds without a result. Results come in any order and do not name the kind. */
        private final Set<Place> unclear = new HashSet<>();

        Worker(String[] words, int number, Random random) {
            this.random = random;
            name = words[words.length - 1].replaceAll(".*/", "") + "/" + number;
            isExplicit = number % 3 != 2;
            Map<String, Object> settings = connection(words[1]);
            settings.put("group.id", words[3]);
            settings.put("client.id", name);
            settings.put("share.acknowledgement.mode", isExplicit ? "explicit" : "implicit");
            settings.put("share.acquire.mode", number % 3 == 1 ? "record_limit" : "batch_optimized");
            settings.put("max.poll.records", POLL_RECORDS);
            settings.put("fetch.max.wait.ms", 200);
            consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
            consumer.setAcknowledgementCommitCallback(this::completed);
            consumer.subscribe(List.of(words[2]));
        }

        @Override
        public void run() {
            while (!stop) {
                try {
                    work();
                } catch (KafkaException failed) {
                    note("e " + name + " " + failed.toString().replace('\n', ' ') + "\n");
                } catch (InterruptedException unexpected) {
                    return;
                }
            }
            consumer.close(Duration.ofSeconds(20));
        }

        private void work() throws InterruptedException {
            long begun = now();
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
            long since = emptied;
            polls = renewals == 0 ? polls + 1 : 0;
            // Renewed records come alone, in the poll after the result or in that with it.
            if (records.count() < POLL_RECORDS && polls > 2) {
                emptied = begun;
            }
            StringBuilder lines = new StringBuilder();
            for (ConsumerRecord<String, String> record : records) {
                lines.append("d ").append(name).append(' ').append(since).append(' ').append(record.partition())
                        .append(' ').append(record.offset()).append(' ').append(count(record)).append(' ')
                        .append(record.value()).append('\n');
            }
            note(lines);
            if (records.isEmpty()) {
                return;
            }
            if (random.nextInt(100) < 2) {
                // Longer than the locks.
                Thread.sleep(1_500);
            }
            StringBuilder sending = new StringBuilder();
            long at = now();
            for (ConsumerRecord<String, String> record : records) {
                AcknowledgeType kind = isExplicit ? draw(count(record)) : AcknowledgeType.ACCEPT;
                renewals += kind == AcknowledgeType.RENEW ? 1 : 0;
                Sent one = new Sent(count(record), kind.toString().toLowerCase(Locale.ROOT));
                Place place = new Place(record.partition(), record.offset());
                Deque<Sent> waiting = sent.computeIfAbsent(place, any -> new ArrayDeque<>());
                if (waiting.stream().anyMatch(other -> !other.kind().equals(one.kind()))) {
                    unclear.add(place);
                }
                waiting.add(one);
                line(sending.append("s "), at, record.partition(), record.offset(), one).append('\n');
                if (isExplicit) {
                    consumer.acknowledge(record, kind);
                }
            }
            note(sending);
            switch (random.nextInt(3)) {
                case 0 -> consumer.commitSync(Duration.ofSeconds(1));
                case 1 -> consumer.commitAsync();
                default -> { }
            }
        }

        private AcknowledgeType draw(int count) {
            int drawn = random.nextInt(100);
            if (drawn < 12 && count <= 2) {
                return AcknowledgeType.RELEASE;
            }
            return drawn >= 95 ? AcknowledgeType.RENEW : AcknowledgeType.ACCEPT;
        }

        private void completed(Map<TopicIdPartition, Set<Long>> offsets, Exception failed) {
            String result = failed == null ? "ok" : failed.getClass().getSimpleName();
            long at = now();
            StringBuilder lines = new StringBuilder();
            offsets.forEach((partition, all) -> all.forEach(offset -> {
                Place place = new Place(partition.partition(), offset);
                Deque<Sent> waiting = sent.get(place);
                if (waiting == null) {
                    // The client acknowledges gaps, such as the end of a transaction, itself.
                    return;
                }
                Sent one = waiting.remove();
                boolean isUnclear = unclear.contains(place);
                if (waiting.isEmpty()) {
                    sent.remove(place);
                    unclear.remove(place);
                }
                renewals -= one.kind().equals("renew") ? 1 : 0;
                if (failed == null && one.kind().equals("accept") && !isUnclear) {
                    ACCEPTED.incrementAndGet();
                }
                Sent known = isUnclear ? new Sent(one.count(), "unclear") : one;
                line(lines.append("a "), at, partition.partition(), offset, known).append(' ').append(result).append('\n');
            }));
            note(lines);
        }

        private StringBuilder line(StringBuilder text, long at, int partition, long offset, Sent one) {
            return text.append(name).append(' ').append(at).append(' ').append(partition).append(' ').append(offset)
                    .append(' ').append(one.count()).append(' ').append(one.kind());
        }

        private static int count(ConsumerRecord<String, String> record) {
            return record.deliveryCount().map(Short::intValue).orElse(0);
        }

        private static long now() {
            return System.nanoTime() / 1_000;
        }
    }

    private static final class Writer {
        private static final int TIMEOUT_MS = 3_000;

        private final String bootstrap;
        private final String topic;
        private final int partitions;
        private final Random random;
        private final KafkaProducer<String, String> plain;
        private KafkaProducer<String, String> transactional;
        private long number = 0;

        Writer(String bootstrap, String topic, int partitions, Random random) {
            this.bootstrap = bootstrap;
            this.topic = topic;
            this.partitions = partitions;
            this.random = random;
            plain = new KafkaProducer<>(connection(bootstrap), new StringSerializer(), new StringSerializer());
            transactional = opened();
        }

        private KafkaProducer<String, String> opened() {
            Map<String, Object> settings = connection(bootstrap);
            settings.put("transactional.id", "share-writer");
            settings.put("transaction.timeout.ms", TIMEOUT_MS);
            KafkaProducer<String, String> made =
                    new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
            while (true) {
                try {
                    made.initTransactions();
                    return made;
                } catch (org.apache.kafka.common.errors.TimeoutException late) {
                    // The broker is down.
                }
            }
        }

        void run() throws Exception {
            while (!stop) {
                int partition = random.nextInt(partitions);
                int count = 1 + random.nextInt(20);
                List<String> values = new ArrayList<>();
                for (int record = 0; record < count; record++) {
                    values.add("r" + number++);
                }
                List<String> places = new ArrayList<>();
                String outcome = random.nextInt(10) < 6
                        ? written(partition, values, places)
                        : transacted(partition, values, places);
                StringBuilder line = new StringBuilder(outcome).append(' ').append(partition);
                for (int record = 0; record < count; record++) {
                    line.append(' ').append(record < places.size() ? places.get(record) : "-1").append(':')
                            .append(values.get(record));
                }
                note(line.append('\n'));
                Thread.sleep(random.nextInt(50));
            }
            plain.close();
            transactional.close();
        }

        private String written(int partition, List<String> values, List<String> places) throws InterruptedException {
            try {
                send(plain, partition, values, places);
                return "committed";
            } catch (ExecutionException failed) {
                places.clear();
                return "unknown";
            }
        }

        private void send(KafkaProducer<String, String> producer, int partition, List<String> values, List<String> places)
                throws InterruptedException, ExecutionException {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (String value : values) {
                sent.add(producer.send(new ProducerRecord<>(topic, partition, null, value)));
            }
            producer.flush();
            for (Future<RecordMetadata> one : sent) {
                places.add(String.valueOf(one.get().offset()));
            }
        }

        private String transacted(int partition, List<String> values, List<String> places) throws InterruptedException {
            boolean isCommitting = false;
            try {
                transactional.beginTransaction();
                send(transactional, partition, values, places);
                if (random.nextInt(4) == 0) {
                    transactional.abortTransaction();
                    return "aborted";
                }
                isCommitting = true;
                transactional.commitTransaction();
                return "committed";
            } catch (java.util.concurrent.ExecutionException | KafkaException failed) {
                places.clear();
                // The next one of its name aborts the transaction, unless it was committed.
                transactional.close(Duration.ZERO);
                transactional = opened();
                return isCommitting ? "unknown" : "aborted";
            }
        }
    }
}
