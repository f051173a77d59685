import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A producer and a consumer that stay until standard input has a line. Usage: Pushing BOOTSTRAP TOPIC. */
public final class Pushing {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        Map<String, Object> sending = Map.of("bootstrap.servers", arguments[0], "client.id", "java-producer");
        Map<String, Object> reading =
            Map.of("bootstrap.servers", arguments[0], "client.id", "java-consumer", "group.id", "java-group");
        try (var producer = new KafkaProducer<>(sending, new StringSerializer(), new StringSerializer());
            var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (System.in.available() == 0) {
                producer.send(new ProducerRecord<>(topic, "value"));
                consumer.poll(Duration.ofMillis(20));
            }
        }
    }
}
