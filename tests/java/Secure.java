import java.io.FileReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Connects as each *.properties file of a directory says; prints for each what came of it: "ok", or the error's class. */
final class Secure {
    public static void main(String[] args) throws Exception {
        List<Path> cases;
        try (var files = Files.list(Path.of(args[0]))) {
            cases = files.filter(file -> file.toString().endsWith(".properties")).sorted().toList();
        }
        for (Path file : cases) {
            Properties properties = new Properties();
            try (var reader = new FileReader(file.toFile())) {
                properties.load(reader);
            }
            // A token may come from this file.
            String token = properties.getProperty("sasl.oauthbearer.token.endpoint.url", "");
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", token);
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.files", token.replace("file:", ""));
            String name = file.getFileName().toString().replace(".properties", "");
            System.out.println(name + " " + outcome(properties, "java-" + name));
        }
    }

    private static String outcome(Properties properties, String text) throws Exception {
        try (var admin = Admin.create(properties)) {
            admin.listTopics().names().get(60, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            return error.getCause().getClass().getSimpleName();
        }
        var partition = new TopicPartition("secure", 0);
        long offset;
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            offset = producer.send(new ProducerRecord<>("secure", 0, "key", text)).get().offset();
        }
        properties.put("enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            for (int round = 0; round < 60; round++) {
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    return record.value().equals(text) ? "ok" : "read " + record.value();
                }
            }
        }
        return "read nothing";
    }

    private Secure() {}
}
