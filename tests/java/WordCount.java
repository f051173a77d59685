import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words exactly once: lines of the topic {@code lines} become words of a repartition topic, which become counts
 * in a store with a changelog; each count that a word reaches goes to the topic {@code counts}, none is skipped.
 *
 * <p>Usage: WordCount BOOTSTRAP STATE [KEY=VALUE]... Prints {@code counted N} as it goes on, each state that it
 * enters, and for each line of standard input its threads with their active tasks. The end of standard input ends it.
 */
public final class WordCount {
    private static final int STEP = 40;
    private static final AtomicLong COUNTED = new AtomicLong();

    private static void progress() {
        long counted = COUNTED.incrementAndGet();
        if (counted % STEP == 0) {
            System.out.println("counted " + counted);
        }
    }

    public static void main(String[] arguments) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream("lines", Consumed.with(Serdes.ByteArray(), Serdes.String()))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.as("totals"))
            .toStream()
            .peek((word, count) -> progress())
            .to("counts", Produced.with(Serdes.String(), Serdes.Long()));

        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "word-count");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        properties.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 50);
        properties.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        for (String setting : Arrays.asList(arguments).subList(2, arguments.length)) {
            String[] halves = setting.split("=", 2);
            properties.put(halves[0], halves[1]);
        }

        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
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
        StreamsGroups.listen(streams, over);
        over.await();
        boolean closed = streams.close(Duration.ofSeconds(60));
        System.exit(closed && streams.state() == KafkaStreams.State.NOT_RUNNING ? 0 : 1);
    }
}
