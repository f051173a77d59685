package levada.requests;

import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import kafka.server.KafkaConfig;
import kafka.server.SharedServer;
import org.apache.kafka.common.Endpoint;
import org.opentest4j.TestAbortedException;
import scala.jdk.javaapi.CollectionConverters;

/** A process of Levada: its ports, its start and its end. */
public final class Broker {
    /** Longest wait for the process to start, to apply a change, or to end. */
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final String OFFSET = "\nlevada_cluster_metadata_offset ";
    /** Words of the errors that refuse a class of Java. */
    private static final String JAVA_CLASS = "a Java class cannot be loaded";
    private static final String AUTHORIZER = "must be one of org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    /** Words of the message that refuses a cluster of Kafka 3. */
    private static final String OLD_METADATA = "and this Levada supports levels 25 to";
    /** The reason why a test cannot run whose nodes are brokers and controllers of one quorum. */
    private static final String COMBINED = "several nodes that are brokers and controllers";
    /** The last lines of the log that an error shows. */
    private static final int SHOWN = 12;

    private final KafkaConfig config;
    private final SharedServer given;
    private final Map<String, Integer> ports = new TreeMap<>();
    private final int http = freePort();
    private final boolean isStandalone;
    private volatile Process process;
    private volatile boolean isStopping;
    /** The last known offset of applied metadata. */
    private volatile long lastApplied = -1;
    private Path log;

    /** A process that is not started. Its listeners have the addresses of this configuration. */
    public Broker(KafkaConfig config, SharedServer given) {
        this.config = config;
        this.given = given;
        isStandalone = config.processRoles().size() > 1;
        boolean isCombined = isStandalone || siblings().stream().anyMatch(name -> name.startsWith("combined_"));
        if (isCombined && (!isStandalone || config.quorumConfig().voters().size() > 1)) {
            throw new TestAbortedException(COMBINED);
        }
    }

    /** Starts the process. Returns before it serves. */
    public void start() {
        try {
            for (Endpoint listener : CollectionConverters.asJava(config.dataPlaneListeners())) {
                if (!ports.containsKey(listener.listener())) {
                    ports.put(listener.listener(), claim(listener));
                }
            }
            Path home = Files.createDirectories(Path.of(System.getProperty("levada.scratch")));
            Path file = Files.createTempFile(home, "broker-" + config.nodeId() + "-", ".properties");
            log = Path.of(file.toString().replace(".properties", ".log"));
            try (OutputStream out = Files.newOutputStream(file)) {
                Settings.of(config, given, ports, isStandalone ? own() : config.logDirs()).store(out, null);
            }
            ProcessBuilder builder = new ProcessBuilder(System.getProperty("levada.bin"), "serve", "--lenient",
                "--config", file.toString(), "-o", "levada.http.listen=127.0.0.1:" + http);
            builder.environment().keySet().removeIf(name -> name.startsWith("LEVADA_"));
            builder.redirectErrorStream(true).redirectOutput(log.toFile());
            isStopping = false;
            lastApplied = -1;
            process = builder.start();
        } catch (IOException error) {
            throw new UncheckedIOException("a broker cannot be started", error);
        }
        Process own = process;
        Runtime.getRuntime().addShutdownHook(new Thread(own::destroyForcibly));
    }

    /** Asks the process to end, and ends it by force after this time. Blocks until it has ended. */
    public void stop(Duration timeout) {
        isStopping = true;
        if (process == null) {
            return;
        }
        process.destroy();
        Duration limit = timeout.compareTo(LIMIT) < 0 ? timeout : LIMIT;
        try {
            if (!process.waitFor(limit.toMillis(), TimeUnit.MILLISECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException error) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    /** The port of a listener, or 0. */
    public int port(String listener) {
        for (Map.Entry<String, Integer> port : ports.entrySet()) {
            if (port.getKey().equalsIgnoreCase(listener)) {
                return port.getValue();
            }
        }
        return 0;
    }

    /** The view of the metadata of this process. */
    public View view() {
        return isStandalone ? new Standalone(given, config, this) : new Shadow(given, config, this);
    }

    /** Blocks until the broker serves and its controller lets it. */
    public void awaitServing(BooleanSupplier isUnfenced) {
        await("broker " + config.nodeId() + " does not serve", () -> isReady() && isUnfenced.getAsBoolean());
    }

    /** True if the process says that it is ready for clients. */
    boolean isReady() {
        return page("/readyz").startsWith("HTTP/1.1 200 ");
    }

    /** Blocks until the process has applied the record at this offset, or has ended, for some time. */
    void awaitApplied(long offset) {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (lastApplied < offset && !isStopping && process.isAlive() && System.nanoTime() < end) {
            lastApplied = applied();
            if (lastApplied < offset) {
                pause();
            }
        }
    }

    private void await(String failure, BooleanSupplier condition) {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!condition.getAsBoolean()) {
            if (!process.isAlive()) {
                String tail = tail();
                String keys = tail.lines().map(String::strip)
                    .filter(line -> line.contains(JAVA_CLASS) || line.contains(AUTHORIZER))
                    .map(line -> line.replaceFirst("^error: ", "").split("=", 2)[0])
                    .collect(Collectors.joining(", "));
                if (!keys.isEmpty()) {
                    throw new TestAbortedException("needs a class of the test in the broker: " + keys);
                }
                throw new AssertionError("Levada has ended: " + tail);
            }
            if (tail().contains(OLD_METADATA)) {
                throw new TestAbortedException("needs a metadata.version before that of Kafka 4.0");
            }
            if (System.nanoTime() > end) {
                throw new AssertionError(failure + " after " + LIMIT + ": " + tail());
            }
            pause();
        }
    }

    private String tail() {
        try {
            List<String> lines = new ArrayList<>(Files.readAllLines(log));
            lines.removeIf(line -> line.startsWith("note: "));
            return String.join("\n", lines.subList(Math.max(0, lines.size() - SHOWN), lines.size()));
        } catch (IOException error) {
            return error.toString();
        }
    }

    /** Offset of the last applied metadata record, or -1 before the broker serves its metrics. */
    long applied() {
        String page = page("/metrics");
        int at = page.indexOf(OFFSET);
        return at < 0 ? -1 : (long) Double.parseDouble(page.substring(at + OFFSET.length()).split("\\s", 2)[0]);
    }

    /** A page of the process, or nothing. A client of the JDK would leave threads. */
    private String page(String path) {
        if (isStopping) {
            return "";
        }
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress("127.0.0.1", http), 1000);
            socket.setSoTimeout(5000);
            String request = "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + http + "\r\nConnection: close\r\n\r\n";
            socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
            return new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException error) {
            return "";
        }
    }

    static void pause() {
        try {
            TimeUnit.MILLISECONDS.sleep(10);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new AssertionError("interrupted", error);
        }
    }

    /** The port of a listener: the configured one, or a free one in place of that of the test kit. */
    private int claim(Endpoint listener) throws IOException {
        if (listener.port() != 0) {
            return listener.port();
        }
        InetSocketAddress any = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        given.socketFactory().openServerSocket(listener.listener(), any, 50, -1).close();
        return freePort();
    }

    /** A port that no connection takes before the process listens: below those that Linux chooses from. */
    private static int freePort() {
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(10_240, 32_000);
            try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                return socket.getLocalPort();
            } catch (IOException error) {
                // Another program has it.
            }
        }
    }

    /** Directories beside those of the controller in this JVM, with the same identities. */
    private List<String> own() throws IOException {
        List<String> own = new ArrayList<>();
        for (String folder : config.logDirs()) {
            Path copy = Path.of(folder + "-levada");
            if (!Files.exists(copy)) {
                Files.createDirectories(copy);
                for (String name : List.of("meta.properties", "bootstrap.checkpoint")) {
                    if (Files.exists(Path.of(folder, name))) {
                        Files.copy(Path.of(folder, name), copy.resolve(name));
                    }
                }
            }
            own.add(copy.toString());
        }
        return own;
    }

    /** Directories beside those of this broker. */
    private List<String> siblings() {
        String[] names = new File(config.logDirs().get(0)).getAbsoluteFile().getParentFile().list();
        return names == null ? List.of() : List.of(names);
    }
}
