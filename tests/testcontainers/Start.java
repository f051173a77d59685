import java.time.Duration;
import java.util.List;
import java.util.Map;
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
 * Starts the image with the unmodified containers of Testcontainers, and sends a record through each. The argument is
 * the number of starts of each kind; without records from the second on. Prints the longest start in milliseconds.
 */
public class Start {
    private static final DockerImageName IMAGE = DockerImageName.parse("levada:0.1.0");

    public static void main(String[] args) {
        int starts = Integer.parseInt(args[0]);
        for (String kind : List.of("apache/kafka", "confluentinc/cp-kafka")) {
            long longest = 0;
            for (int done = 0; done < starts; done++) {
                try (GenericContainer<?> container = container(kind)) {
                    long start = System.nanoTime();
                    container.start();
                    longest = Math.max(longest, (System.nanoTime() - start) / 1_000_000);
                    if (done == 0) {
                        exchange(address(container));
                    }
                }
            }
            System.out.println(kind + ": " + starts + " starts, " + longest + " ms at most");
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

    private static void exchange(String address) {
        var producing = Map.<String, Object>of("bootstrap.servers", address);
        try (var producer = new KafkaProducer<>(producing, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>("tried", "key", "value"));
        }
        var consuming = Map.<String, Object>of(
                "bootstrap.servers", address, "group.id", "readers", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(consuming, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of("tried"));
            long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
            var records = consumer.poll(Duration.ofSeconds(1));
            while (records.isEmpty() && System.nanoTime() < end) {
                records = consumer.poll(Duration.ofSeconds(1));
            }
            String value = records.iterator().next().value();
            if (!value.equals("value")) {
                throw new IllegalStateException("the record is " + value);
            }
        }
    }
}
