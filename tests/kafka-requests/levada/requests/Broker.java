package levada.requests;

import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.channels.ServerSocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import kafka.server.KafkaConfig;
import kafka.server.SharedServer;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.network.ListenerName;
import org.opentest4j.TestAbortedException;
import scala.jdk.javaapi.CollectionConverters;

/** A process of Levada: its ports, its start and its end. */
public final class Broker {
    /** Longest wait for the process to start, to apply a change, or to end. */
    private static final Duration LIMIT = Duration.ofSeconds(30);
    private static final String OFFSET = "\nlevada_cluster_metadata_offset ";
    /** The last lines of the log that an error shows. */
    private static final int SHOWN = 12;

    private final KafkaConfig config;
    private final SharedServer given;
    private final Map<String, Integer> ports = new TreeMap<>();
    private final int http = freePort();
    private volatile Process process;
    private volatile boolean isStopping;
    private Path log;

    /** A process that is not started. Its listeners have the addresses of this configuration. */
    public Broker(KafkaConfig config, SharedServer given) {
        this.config = config;
        this.given = given;
    }

    /** Starts the process. Returns before it serves. */
    public void start() {
        if (config.processRoles().size() > 1) {
            throw new TestAbortedException("the broker is also a controller in this JVM");
        }
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
                Settings.of(config, given, ports).store(out, null);
            }
            ProcessBuilder builder = new ProcessBuilder(System.getProperty("levada.bin"), "serve", "--lenient",
                "--config", file.toString(), "-o", "levada.http.listen=127.0.0.1:" + http);
            builder.environment().keySet().removeIf(name -> name.startsWith("LEVADA_"));
            builder.redirectErrorStream(true).redirectOutput(log.toFile());
            isStopping = false;
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
    public int port(ListenerName listener) {
        for (Map.Entry<String, Integer> port : ports.entrySet()) {
            if (port.getKey().equalsIgnoreCase(listener.value())) {
                return port.getValue();
            }
        }
        return 0;
    }

    /** Blocks until the broker serves and its controller lets it. */
    void awaitServing(BooleanSupplier isUnfenced) {
        await("broker " + config.nodeId() + " is not registered", () -> isUnfenced.getAsBoolean() && applied() >= 0);
    }

    public void awaitRegistered(Shadow shadow) {
        awaitServing(shadow::isUnfenced);
    }

    /** Blocks until the process has applied the record at this offset, or has ended, for some time. */
    void awaitApplied(long offset) {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!isStopping && process.isAlive() && applied() < offset && System.nanoTime() < end) {
            pause();
        }
    }

    private void await(String failure, BooleanSupplier condition) {
        long end = System.nanoTime() + LIMIT.toNanos();
        while (!condition.getAsBoolean()) {
            if (!process.isAlive()) {
                throw new AssertionError("Levada has ended: " + tail());
            }
            if (System.nanoTime() > end) {
                throw new AssertionError(failure + " after " + LIMIT + ": " + tail());
            }
            pause();
        }
    }

    private String tail() {
        try {
            List<String> lines = Files.readAllLines(log);
            return String.join("\n", lines.subList(Math.max(0, lines.size() - SHOWN), lines.size()));
        } catch (IOException error) {
            return error.toString();
        }
    }

    /** Offset of the last applied metadata record, or -1 before the broker serves its metrics. */
    private long applied() {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress("127.0.0.1", http), 1000);
            socket.setSoTimeout(5000);
            String request = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:" + http + "\r\nConnection: close\r\n\r\n";
            socket.getOutputStream().write(request.getBytes(StandardCharsets.US_ASCII));
            String page = new String(socket.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            int at = page.indexOf(OFFSET);
            return at < 0 ? -1 : (long) Double.parseDouble(page.substring(at + OFFSET.length()).split("\\s", 2)[0]);
        } catch (IOException error) {
            return -1;
        }
    }

    private static void pause() {
        try {
            TimeUnit.MILLISECONDS.sleep(10);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new AssertionError("interrupted", error);
        }
    }

    /** The port of a listener: a configured one, or one that the test kit has bound, or a free one. */
    private int claim(Endpoint listener) throws IOException {
        if (listener.port() != 0) {
            return listener.port();
        }
        InetSocketAddress any = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
        try (ServerSocketChannel channel = given.socketFactory().openServerSocket(listener.listener(), any, 50, -1)) {
            return ((InetSocketAddress) channel.getLocalAddress()).getPort();
        }
    }

    private static int freePort() {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return socket.getLocalPort();
        } catch (IOException error) {
            throw new UncheckedIOException("no free port", error);
        }
    }
}
