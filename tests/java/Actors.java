import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;

/** Clients that stay between two commands, for the tools to look at: members of groups, and open transactions. */
final class Actors {
    private final String bootstrap;
    private final Map<String, Member> members = new HashMap<>();
    private final Map<String, KafkaShareConsumer<String, String>> sharers = new HashMap<>();
    private final Map<String, KafkaStreams> instances = new HashMap<>();
    private final Map<String, KafkaProducer<String, String>> transactions = new HashMap<>();

    Actors(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void act(String name, List<String> words) throws Exception {
        switch (name) {
            case "produce" -> produce(words.get(0), Integer.parseInt(words.get(1)), Integer.parseInt(words.get(2)));
            case "join" -> join(words);
            case "leave" -> leave(words.get(0));
            case "share" -> share(words);
            case "stream" -> stream(words);
            case "begin" -> begin(words.get(0), words.subList(1, words.size()));
            case "commit" -> transactions.get(words.get(0)).commitTransaction();
            case "abort" -> transactions.get(words.get(0)).abortTransaction();
            case "ask" -> Administrator.ask(bootstrap, words.get(0));
            case "write" -> Files.writeString(Path.of(words.get(0)), words.get(1));
            case "forget" -> transactions.remove(words.get(0)).close(Duration.ZERO);
            default -> throw new IllegalArgumentException(name);
        }
    }

    /** produce TOPIC PARTITION COUNT: records {@code key-N} and {@code value-N}, the second ones in milliseconds N. */
    private void produce(String topic, int partition, int count) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("linger.ms", "100");
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < count; number++) {
                long time = 1_600_000_000_000L + number;
                producer.send(new ProducerRecord<>(topic, partition, time, "key-" + number, "value-" + number));
            }
        }
    }

    /** join NAME GROUP TOPIC [KEY=VALUE]...: a member that reads and commits nothing; says what it was given. */
    private void join(List<String> words) throws Exception {
        Properties properties = properties(words.subList(3, words.size()));
        properties.put("client.id", words.get(0));
        properties.put("group.id", words.get(1));
        properties.put("enable.auto.commit", "false");
        Member member = new Member(properties, words.get(2));
        members.put(words.get(0), member);
        member.start();
        if (!member.assigned.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no assignment");
        }
    }

    /**
     * share NAME GROUP TOPIC COUNT [KEY=VALUE]...: a member of a share group that accepts this number of records, and holds
     * what it gets beyond that.
     */
    private void share(List<String> words) {
        Properties properties = properties(words.subList(4, words.size()));
        properties.put("client.id", words.get(0));
        properties.put("group.id", words.get(1));
        properties.put("share.acknowledgement.mode", "explicit");
        var consumer = new KafkaShareConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
        sharers.put(words.get(0), consumer);
        consumer.subscribe(List.of(words.get(2)));
        int wanted = Integer.parseInt(words.get(3));
        for (int attempt = 0; wanted > 0; attempt++) {
            if (attempt == 120) {
                throw new IllegalStateException("too few records");
            }
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                if (wanted > 0) {
                    consumer.acknowledge(record);
                    wanted--;
                }
            }
            consumer.commitSync();
        }
    }

    /**
     * stream NAME APPLICATION TOPIC [KEY=VALUE]...: an instance of an application that counts the values of a topic, as a
     * member of a streams group.
     */
    private void stream(List<String> words) throws Exception {
        String state = Files.createTempDirectory("streams").toString();
        Properties properties = StreamsGroups.settings(bootstrap, state, words.get(1), words.subList(3, words.size()));
        properties.put("client.id", words.get(0));
        KafkaStreams instance = new KafkaStreams(StreamsGroups.counts(words.get(2)), properties);
        instances.put(words.get(0), instance);
        CountDownLatch running = new CountDownLatch(1);
        instance.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
        });
        instance.start();
        if (!running.await(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no tasks");
        }
    }

    private void leave(String name) throws InterruptedException {
        if (sharers.containsKey(name)) {
            sharers.remove(name).close();
        } else if (instances.containsKey(name)) {
            var leaving = CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
            instances.remove(name).close(leaving.withTimeout(Duration.ofSeconds(30)));
        } else {
            members.remove(name).leave();
        }
    }

    /** begin ID TOPIC-PARTITION...: a transaction with a record in each partition, left open. */
    private void begin(String id, List<String> partitions) throws Exception {
        var producer = transactions.get(id);
        if (producer == null) {
            Properties properties = properties(List.of("transactional.id=" + id, "client.id=" + id));
            producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
            producer.initTransactions();
            transactions.put(id, producer);
        }
        producer.beginTransaction();
        for (String name : partitions) {
            int dash = name.lastIndexOf('-');
            int partition = Integer.parseInt(name.substring(dash + 1));
            producer.send(new ProducerRecord<>(name.substring(0, dash), partition, "key", "value")).get();
        }
    }

    private Properties properties(List<String> settings) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (String setting : settings) {
            String[] halves = setting.split("=", 2);
            properties.put(halves[0], halves[1]);
        }
        return properties;
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        final CountDownLatch assigned = new CountDownLatch(1);
        private final KafkaConsumer<String, String> consumer;

        Member(Properties properties, String topic) {
            consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
            consumer.subscribe(List.of(topic), this);
            setDaemon(true);
        }

        @Override
        public void run() {
            try (consumer) {
                while (true) {
                    consumer.poll(Duration.ofMinutes(1));
                }
            } catch (WakeupException asked) {
                // Closing leaves the group.
            } catch (UnknownMemberIdException removed) {
                // By the administrator; the client may learn that from a commit, which it reports, or from a heartbeat.
            }
        }

        void leave() throws InterruptedException {
            consumer.wakeup();
            join();
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            if (!partitions.isEmpty()) {
                TreeSet<String> names = new TreeSet<>();
                partitions.forEach(partition -> names.add(partition.toString()));
                if (assigned.getCount() > 0) {
                    System.out.println(names);
                }
                assigned.countDown();
            }
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) { }
    }
}
