import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.kafka.ConfluentKafkaContainer;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/**
 * Starts the image with the unmodified containers of Testcontainers, as often as the argument says, and sends a record
 * through each of them. Prints the longest start in milliseconds.
 */
public final class Start {
    private static final DockerImageName IMAGE = DockerImageName.parse("levada:0.1.0");

    private Start() {}

    public static void main(String[] arguments) throws Exception {
        int starts = Integer.parseInt(arguments[0]);
        for (String kind : List.of("apache/kafka", "confluentinc/cp-kafka")) {
            long longest = 0;
            for (int done = 0; done < starts; done++) {
                try (GenericContainer<?> container = container(kind)) {
                    long start = System.nanoTime();
                    container.start();
                    longest = Math.max(longest, (System.nanoTime() - start) / 1_000_000);
                    exchange(address(container));
                }
            }
            System.out.println("image: starts as " + kind + " in Testcontainers: " + starts + " of " + starts
                    + ", in " + longest + " ms at most");
        }
    }

    private static GenericContainer<?> container(String kind) {
        DockerImageName name = IMAGE.asCompatibleSubstituteFor(kind);
        return kind.startsWith("apache") ? new KafkaContainer(name) : new ConfluentKafkaContainer(name);
    }

    private static String address(GenericContainer<?> container) {
        return container instanceof KafkaContainer kafka
                ? kafka.getBootstrapServers()
                : ((ConfluentKafkaContainer) container).getBootstrapServers();
    }

    /** Writes a record and reads it as a member of a group. */
    private static void exchange(String address) throws Exception {
        Map<String, Object> producing = Map.of("bootstrap.servers", address);
        try (var producer = new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("tried", "key", "value")).get();
        }
        Map<String, Object> consuming =
                Map.of("bootstrap.servers", address, "group.id", "readers", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("tried"));
            long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            ConsumerRecords<String, String> records = ConsumerRecords.empty();
            while (records.isEmpty() && System.nanoTime() < end) {
                records = consumer.poll(Duration.ofSeconds(1));
            }
            if (records.count() != 1 || !records.iterator().next().value().equals("value")) {
                throw new IllegalStateException(records.count() + " records have arrived instead of the one that was sent");
            }
        }
    }
}
