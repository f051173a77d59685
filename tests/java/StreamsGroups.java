import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * An application of Kafka Streams that is a streams group: it joins each payment with the order of the same key, if both are
 * within five seconds of each other, and sums the amounts by region and window of ten seconds. Orders have a region as their
 * value, payments an amount; the topic {@code sums} gets the sum after each payment, under the key {@code REGION@START}.
 *
 * <p>Usage: StreamsGroups BOOTSTRAP STATE APPLICATION [KEY=VALUE]... Prints each state that it enters, and for each line of
 * standard input its threads with their active tasks. The end of standard input ends it.
 */
public final class StreamsGroups {
    private static final Duration GRACE = Duration.ofDays(1);

    private StreamsGroups() {}

    /** The topology that joins and sums. */
    static Topology sums() {
        var strings = Consumed.with(Serdes.String(), Serdes.String());
        StreamsBuilder builder = new StreamsBuilder();
        var orders = builder.stream("orders", strings);
        builder.stream("payments", strings)
            .join(orders, (amount, region) -> KeyValue.pair(region, Long.parseLong(amount)),
                JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(5), GRACE),
                StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String()).withName("paid").withStoreName("paid"))
            .map((id, paid) -> paid)
            .groupByKey(Grouped.with("regions", Serdes.String(), Serdes.Long()))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), GRACE))
            .reduce(Long::sum, Materialized.as("sums"))
            .toStream((window, sum) -> window.key() + "@" + window.window().start() / 1000)
            .mapValues(sum -> Long.toString(sum))
            .to("sums", Produced.with(Serdes.String(), Serdes.String()));
        return builder.build();
    }

    /** The topology that counts the values of a topic. */
    static Topology counts(String topic) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(topic, Consumed.with(Serdes.String(), Serdes.String()))
            .groupBy((key, value) -> value, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"));
        return builder.build();
    }

    /** Settings of an application whose group is a streams group. */
    static Properties settings(String bootstrap, String state, String application, List<String> settings) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, state);
        properties.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 50);
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        for (String setting : settings) {
            String[] halves = setting.split("=", 2);
            properties.put(halves[0], halves[1]);
        }
        return properties;
    }

    /** Prints the threads for each line of standard input, and counts down when it ends. */
    static void listen(KafkaStreams streams, CountDownLatch over) {
        Thread asked = new Thread(() -> {
            try {
                for (int read = System.in.read(); read >= 0; read = System.in.read()) {
                    if (read == '\n') {
                        System.out.println("threads " + threads(streams));
                    }
                }
            } catch (java.io.IOException closed) {
                // So it is asked to end.
            }
            over.countDown();
        });
        asked.setDaemon(true);
        asked.start();
    }

    /** State and active tasks of each thread; only the state of the application unless it runs. */
    private static String threads(KafkaStreams streams) {
        try {
            return streams.metadataForLocalThreads().stream()
                .map(thread -> thread.threadState() + thread.activeTasks().stream()
                    .map(task -> " " + task.taskId()).sorted().collect(Collectors.joining()))
                .collect(Collectors.joining("; "));
        } catch (IllegalStateException stopped) {
            return streams.state().toString();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings =
            settings(arguments[0], arguments[1], arguments[2], List.of(arguments).subList(3, arguments.length));
        settings.putIfAbsent(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        KafkaStreams streams = new KafkaStreams(sums(), settings);
        CountDownLatch over = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            if (now == KafkaStreams.State.ERROR) {
                over.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(failure -> {
            System.err.println("failed: " + failure);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        listen(streams, over);
        over.await();
        boolean closed = streams.close(Duration.ofSeconds(60));
        System.exit(closed && streams.state() == KafkaStreams.State.NOT_RUNNING ? 0 : 1);
    }
}
