package levada.requests;

import java.lang.reflect.Field;
import java.util.ConcurrentModificationException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import kafka.server.KafkaConfig;
import kafka.server.SharedServer;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.LoaderManifest;
import org.apache.kafka.image.loader.MetadataLoader;
import org.apache.kafka.image.publisher.MetadataPublisher;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.publisher.AclPublisher;
import org.apache.kafka.metadata.publisher.DelegationTokenPublisher;
import org.apache.kafka.metadata.publisher.ScramPublisher;
import org.apache.kafka.raft.KafkaRaftClient;
import org.apache.kafka.raft.KafkaRaftClientDriver;
import org.apache.kafka.security.CredentialProvider;
import org.apache.kafka.security.DelegationTokenManager;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.config.DelegationTokenManagerConfigs;
import org.apache.kafka.server.fault.FaultHandler;
import scala.Option;
import scala.jdk.javaapi.OptionConverters;

/**
 * View of a process whose controllers run in this JVM: it follows the metadata of one of them. A
 * change counts as published there once the process has applied it, so that a test which waits for
 * the change waits for the process.
 */
final class Shadow implements View {
    private final SharedServer given;
    private final Broker process;
    private final int nodeId;
    private final MetadataLoader loader;
    private final KRaftMetadataCache cache;
    private final Option<Plugin<Authorizer>> authorizer;
    private final DelegationTokenCache tokens = new DelegationTokenCache(ScramMechanism.mechanismNames());
    private final CredentialProvider credentials =
        new CredentialProvider(ScramMechanism.mechanismNames(), tokens);
    private final List<MetadataPublisher> publishers;
    private final Following following = new Following();
    /** Applies changes one after the other, beside those of other brokers. */
    private final ExecutorService worker;
    private volatile long applied = -1;

    /** A view of the metadata of this cluster; it reads nothing before {@link #start}. */
    Shadow(SharedServer given, KafkaConfig config, Broker process) {
        this.given = given;
        this.process = process;
        nodeId = config.nodeId();
        Controller controller = controller(given.clusterId());
        loader = controller.loader;
        cache = new KRaftMetadataCache(nodeId, controller.client::kraftVersion);
        authorizer = config.createNewAuthorizer(new Metrics(), "broker");
        DelegationTokenManager manager =
            new DelegationTokenManager(new DelegationTokenManagerConfigs(config), tokens);
        FaultHandler faults = given.metadataPublishingFaultHandler();
        worker = Executors.newSingleThreadExecutor(task -> new Thread(task, "metadata-of-broker-" + nodeId));
        publishers = List.of(
            new ScramPublisher(nodeId, faults, "broker", credentials),
            new DelegationTokenPublisher(nodeId, faults, "broker", manager),
            new AclPublisher(nodeId, faults, "broker", OptionConverters.toJava(authorizer)));
    }

    /**
     * The member of the quorum of this cluster that runs in this JVM. The harnesses do not show it.
     * Blocks until it follows the metadata: the test kit starts controllers and
     * brokers at the same time.
     */
    private static Controller controller(String clusterId) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (System.nanoTime() < end) {
            for (Thread thread : Thread.getAllStackTraces().keySet()) {
                if (thread instanceof KafkaRaftClientDriver<?> driver
                        && clusterId.equals(field(KafkaRaftClient.class, "clusterId", driver.client()))) {
                    Optional<MetadataLoader> loader = loader(driver.client());
                    if (loader.isPresent()) {
                        return new Controller(driver.client(), loader.get());
                    }
                }
            }
            Broker.pause();
        }
        throw new IllegalStateException("no controller of cluster " + clusterId + " runs in this JVM");
    }

    private static Optional<MetadataLoader> loader(KafkaRaftClient<?> client) {
        Map<?, ?> listeners = (Map<?, ?>) field(KafkaRaftClient.class, "listenerContexts", client);
        try {
            return listeners.keySet().stream().filter(MetadataLoader.class::isInstance)
                .map(MetadataLoader.class::cast).findFirst();
        } catch (ConcurrentModificationException error) {
            // The controller adds a listener at this moment.
            return Optional.empty();
        }
    }

    /** A member of the quorum, and what follows its metadata. */
    private record Controller(KafkaRaftClient<?> client, MetadataLoader loader) {
    }

    static Object field(Class<?> type, String name, Object object) {
        try {
            Field field = type.getDeclaredField(name);
            field.setAccessible(true);
            return field.get(object);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(type + " has no " + name, error);
        }
    }

    @Override
    public void start() {
        try {
            loader.installPublishers(List.of(following)).get(1, TimeUnit.MINUTES);
            worker.submit(() -> { }).get(1, TimeUnit.MINUTES);
        } catch (Exception error) {
            throw new IllegalStateException("the metadata cannot be followed", error);
        }
        given.loader_$eq(Outside.mock(MetadataLoader.class, "loader", call ->
            switch (call.getMethod().getName()) {
                case "lastAppliedOffset" -> applied;
                default -> throw Outside.abort(call);
            }));
    }

    @Override
    public void stop() {
        given.loader_$eq(null);
        try {
            loader.removeAndClosePublisher(following).get(10, TimeUnit.SECONDS);
            worker.shutdown();
            worker.awaitTermination(10, TimeUnit.SECONDS);
        } catch (TimeoutException | ExecutionException error) {
            // The controller has ended before.
            worker.shutdownNow();
        } catch (InterruptedException error) {
            worker.shutdownNow();
            Thread.currentThread().interrupt();
        }
        for (MetadataPublisher publisher : publishers) {
            Utils.closeQuietly(publisher, publisher.name());
        }
        authorizer.foreach(plugin -> {
            Utils.closeQuietly(plugin, "authorizer");
            return null;
        });
    }

    @Override
    public SharedServer server() {
        return given;
    }

    /** The metadata. Blocks until it is not older than that of the process. */
    @Override
    public KRaftMetadataCache cache() {
        long offset = process.applied();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(5);
        while (applied < offset && System.nanoTime() < end) {
            Broker.pause();
        }
        return cache;
    }

    @Override
    public Option<Plugin<Authorizer>> authorizer() {
        return authorizer;
    }

    @Override
    public DelegationTokenCache tokens() {
        return tokens;
    }

    @Override
    public CredentialProvider credentials() {
        return credentials;
    }

    /** Registration of the broker, or null before it. */
    private BrokerRegistration registration() {
        return cache.currentImage().cluster().broker(nodeId);
    }

    @Override
    public boolean isUnfenced() {
        BrokerRegistration registration = registration();
        return registration != null && !registration.fenced();
    }

    /** Has each change applied once the process has applied it. */
    private final class Following implements MetadataPublisher {
        @Override
        public String name() {
            return "process of broker " + nodeId;
        }

        @Override
        public void onMetadataUpdate(MetadataDelta delta, MetadataImage image, LoaderManifest manifest) {
            worker.execute(() -> apply(delta, image, manifest));
        }

        @Override
        public void close() {
        }
    }

    private void apply(MetadataDelta delta, MetadataImage image, LoaderManifest manifest) {
        long offset = image.provenance().lastContainedOffset();
        if (!isIdle(delta)) {
            process.awaitApplied(offset);
        }
        cache.setImage(image);
        for (MetadataPublisher publisher : publishers) {
            publisher.onMetadataUpdate(delta, image, manifest);
        }
        applied = offset;
    }

    private static boolean isIdle(MetadataDelta delta) {
        return delta.topicsDelta() == null && delta.aclsDelta() == null && delta.configsDelta() == null
            && delta.featuresDelta() == null && delta.scramDelta() == null
            && delta.clientQuotasDelta() == null && delta.delegationTokenDelta() == null
            && delta.clusterDelta() == null;
    }
}
