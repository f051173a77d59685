import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Members of share groups that do what standard input says, and producers for them. Each line is a command, and one line
 * answers it:
 *
 * <ul>
 *   <li>{@code topic NAME PARTITIONS [KEY=VALUE]...} creates a topic.
 *   <li>{@code remove NAME} deletes a topic, {@code grow NAME PARTITIONS} gives it more partitions, and
 *       {@code trim NAME PARTITION OFFSET} deletes its records before an offset.
 *   <li>{@code config GROUP KEY=VALUE...} sets configuration keys of a group.
 *   <li>{@code produce TOPIC PARTITION VALUE...} writes one batch. The record {@code VALUE=} has the key {@code VALUE} and
 *       no value, {@code KEY:VALUE} has a key.
 *   <li>{@code transact ID commit|abort TOPIC PARTITION VALUE...} writes one batch in a transaction, {@code begin} leaves
 *       the transaction open, {@code commit ID} and {@code abort ID} end it.
 *   <li>{@code open NAME GROUP TOPIC [KEY=VALUE]...} makes a member.
 *   <li>{@code poll NAME MILLISECONDS} waits for records, and names them as {@code PARTITION:OFFSET:COUNT=VALUE}.
 *   <li>{@code acknowledge NAME accept|release|reject|renew PARTITION:OFFSET...} acknowledges records of the last poll.
 *   <li>{@code commit NAME} sends the acknowledgements: {@code PARTITION=ok} or the class of an error.
 *   <li>{@code results NAME} names the results since the last time as {@code PARTITION:OFFSET=ok} or the class of an error.
 *   <li>{@code lock NAME} prints the duration of locks in milliseconds.
 *   <li>{@code close NAME} closes a member, {@code forget NAME} leaves it without an end.
 * </ul>
 *
 * <p>An error is a line {@code ! CLASS MESSAGE}.
 */
public final class ShareMembers {
    private static final class Member {
        final KafkaShareConsumer<String, String> consumer;
        final List<String> results = new ArrayList<>();
        /** The last delivery of each record, by partition and offset. */
        final Map<String, ConsumerRecord<String, String>> delivered = new HashMap<>();

        Member(KafkaShareConsumer<String, String> consumer, String topic) {
            this.consumer = consumer;
            consumer.setAcknowledgementCommitCallback(this::completed);
            consumer.subscribe(List.of(topic));
        }

        private void completed(Map<TopicIdPartition, java.util.Set<Long>> offsets, Exception failed) {
            String result = failed == null ? "ok" : failed.getClass().getSimpleName();
            offsets.forEach((partition, all) ->
                    new TreeSet<>(all).forEach(offset -> results.add(partition.partition() + ":" + offset + "=" + result)));
        }
    }

    private final String bootstrap;
    private final Admin admin;
    private final KafkaProducer<String, String> producer;
    private final Map<String, Member> members = new HashMap<>();
    private final Map<String, KafkaProducer<String, String>> transactions = new HashMap<>();

    private ShareMembers(String bootstrap) {
        this.bootstrap = bootstrap;
        admin = Admin.create(connection());
        producer = producer(Map.of());
    }

    public static void main(String[] arguments) throws Exception {
        ShareMembers members = new ShareMembers(arguments[0]);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String answer;
            try {
                answer = members.obey(new ArrayList<>(List.of(line.split(" "))));
            } catch (Exception failed) {
                Throwable cause = failed instanceof java.util.concurrent.ExecutionException ? failed.getCause() : failed;
                answer = "! " + cause.getClass().getSimpleName() + " " + cause.getMessage();
            }
            System.out.println(answer.replace('\n', ' '));
        }
        Runtime.getRuntime().halt(0);
    }

    private String obey(List<String> words) throws Exception {
        String verb = words.remove(0);
        String name = words.remove(0);
        switch (verb) {
            case "topic" -> {
                NewTopic topic = new NewTopic(name, Integer.parseInt(words.remove(0)), (short) -1).configs(settings(words));
                admin.createTopics(List.of(topic)).all().get();
            }
            case "remove" -> admin.deleteTopics(List.of(name)).all().get();
            case "grow" -> {
                NewPartitions partitions = NewPartitions.increaseTo(Integer.parseInt(words.remove(0)));
                admin.createPartitions(Map.of(name, partitions)).all().get();
            }
            case "trim" -> {
                TopicPartition partition = new TopicPartition(name, Integer.parseInt(words.remove(0)));
                RecordsToDelete records = RecordsToDelete.beforeOffset(Long.parseLong(words.remove(0)));
                admin.deleteRecords(Map.of(partition, records)).all().get();
            }
            case "config" -> {
                List<AlterConfigOp> changes = new ArrayList<>();
                settings(words).forEach((key, value) ->
                        changes.add(new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
                admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, name), changes))
                        .all().get();
            }
            case "produce" -> produce(producer, name, words);
            case "transact" -> transact(name, words.remove(0), words);
            case "open" -> open(name, words.remove(0), words.remove(0), settings(words));
            default -> {
                Member member = members.get(name);
                if (member == null) {
                    throw new IllegalArgumentException("no member " + name);
                }
                return tell(verb, member, name, words);
            }
        }
        return "ok";
    }

    private String tell(String verb, Member member, String name, List<String> words) throws Exception {
        switch (verb) {
            case "poll" -> {
                return polled(member, Duration.ofMillis(Long.parseLong(words.get(0))));
            }
            case "acknowledge" -> {
                AcknowledgeType type = AcknowledgeType.valueOf(words.remove(0).toUpperCase(java.util.Locale.ROOT));
                for (String word : words) {
                    member.consumer.acknowledge(member.delivered.get(word), type);
                }
            }
            case "commit" -> {
                return committed(member.consumer.commitSync(Duration.ofSeconds(30)));
            }
            case "results" -> {
                String all = String.join(" ", member.results);
                member.results.clear();
                return all;
            }
            case "lock" -> {
                return member.consumer.acquisitionLockTimeoutMs().map(String::valueOf).orElse("unknown");
            }
            case "close" -> members.remove(name).consumer.close(Duration.ofSeconds(30));
            case "forget" -> members.remove(name);
            default -> throw new IllegalArgumentException(verb);
        }
        return "ok";
    }

    private static String polled(Member member, Duration time) {
        List<String> all = new ArrayList<>();
        for (ConsumerRecord<String, String> record : member.consumer.poll(time)) {
            String place = record.partition() + ":" + record.offset();
            member.delivered.put(place, record);
            all.add(place + ":" + record.deliveryCount().map(String::valueOf).orElse("none") + "=" + record.value());
        }
        return String.join(" ", all);
    }

    private static String committed(Map<TopicIdPartition, java.util.Optional<KafkaException>> results) {
        TreeSet<String> all = new TreeSet<>();
        results.forEach((partition, failed) -> all.add(partition.partition() + "="
                + failed.map(exception -> exception.getClass().getSimpleName()).orElse("ok")));
        return String.join(" ", all);
    }

    private void open(String name, String group, String topic, Map<String, String> settings) {
        Map<String, Object> all = connection();
        all.put("group.id", group);
        all.put("client.id", name);
        all.putAll(settings);
        members.put(name, new Member(
                new KafkaShareConsumer<>(all, new StringDeserializer(), new StringDeserializer()), topic));
    }

    private void produce(KafkaProducer<String, String> writer, String topic, List<String> words) throws Exception {
        int partition = Integer.parseInt(words.remove(0));
        List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
        for (String word : words) {
            int colon = word.indexOf(':');
            String key = colon < 0 ? null : word.substring(0, colon);
            String value = word.substring(colon + 1);
            boolean isTombstone = value.endsWith("=");
            sent.add(writer.send(isTombstone
                    ? new ProducerRecord<>(topic, partition, value.substring(0, value.length() - 1), null)
                    : new ProducerRecord<>(topic, partition, key, value)));
        }
        writer.flush();
        for (java.util.concurrent.Future<?> one : sent) {
            one.get();
        }
    }

    private void transact(String id, String end, List<String> words) throws Exception {
        KafkaProducer<String, String> writer = transactions.get(id);
        if (writer == null) {
            writer = producer(Map.of("transactional.id", id));
            writer.initTransactions();
            transactions.put(id, writer);
        }
        if (!words.isEmpty()) {
            writer.beginTransaction();
            produce(writer, words.remove(0), words);
        }
        switch (end) {
            case "commit" -> writer.commitTransaction();
            case "abort" -> writer.abortTransaction();
            case "begin" -> { }
            default -> throw new IllegalArgumentException(end);
        }
    }

    private KafkaProducer<String, String> producer(Map<String, Object> settings) {
        Map<String, Object> all = connection();
        // A batch ends where the command does.
        all.put("linger.ms", 10_000);
        all.put("batch.size", 1 << 20);
        all.putAll(settings);
        return new KafkaProducer<>(all, new StringSerializer(), new StringSerializer());
    }

    private Map<String, Object> connection() {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrap, "reconnect.backoff.ms", 20,
                "reconnect.backoff.max.ms", 100, "retry.backoff.ms", 20, "retry.backoff.max.ms", 100));
    }

    private static Map<String, String> settings(List<String> words) {
        Map<String, String> settings = new HashMap<>();
        for (String word : words) {
            String[] halves = word.split("=", 2);
            settings.put(halves[0], halves[1]);
        }
        return settings;
    }
}
