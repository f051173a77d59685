import java.io.File;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** Compacts a partition's directory with Kafka's own cleaner: Compact DIR OUT, then FIRST_DIRTY END NOW_MS for each round. */
public class Compact {
    /** Shortly after 1970, when the log's producers are still remembered. */
    private static final Time EARLY = new Time() {
        public long milliseconds() { return 5_000; }
        public long nanoseconds() { return Time.SYSTEM.nanoseconds(); }
        public void sleep(long ms) { Time.SYSTEM.sleep(ms); }
        public void waitObject(Object on, java.util.function.Supplier<Boolean> until, long deadlineMs) { throw new UnsupportedOperationException(); }
    };

    public static void main(String[] a) throws Exception {
        File dir = new File(a[0]);
        Map<String, Object> props = new HashMap<>();
        props.put("cleanup.policy", "compact");
        props.put("delete.retention.ms", "1000");
        props.put("file.delete.delay.ms", "0");
        KafkaScheduler scheduler = new KafkaScheduler(1);
        scheduler.startup();
        UnifiedLog log = UnifiedLog.create(dir, new LogConfig(props), 0L, Long.MAX_VALUE, scheduler, new BrokerTopicStats(),
            EARLY, 3600_000, new ProducerStateManagerConfig(Integer.MAX_VALUE, false), Integer.MAX_VALUE,
            new LogDirFailureChannel(5), true, Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(1 << 20), 1 << 20, 1 << 20, 0.9,
            new Throttler(Double.MAX_VALUE, 1000, "x", "y", EARLY), EARLY, tp -> { });
        for (int at = 2; at < a.length; at += 3) {
            int round = (at - 2) / 3;
            LogToClean job = new LogToClean(log, Long.parseLong(a[at]), Long.parseLong(a[at + 1]), false);
            System.out.println(round + ": " + cleaner.doClean(job, Long.parseLong(a[at + 2])).getKey());
            for (LogSegment segment : log.logSegments()) {
                Path from = segment.log().file().toPath();
                Files.copy(from, Paths.get(a[1], round + "-" + from.getFileName()), StandardCopyOption.REPLACE_EXISTING);
                Path txn = segment.txnIndex().file().toPath();
                if (Files.exists(txn)) Files.copy(txn, Paths.get(a[1], round + "-" + txn.getFileName()), StandardCopyOption.REPLACE_EXISTING);
            }
        }
        log.close();
        scheduler.shutdown();
    }
}
