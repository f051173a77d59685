package kafka.server;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import kafka.coordinator.transaction.TransactionCoordinator;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.raft.KafkaRaftManager;
import kafka.server.metadata.BrokerMetadataPublisher;
import levada.requests.Broker;
import levada.requests.Outside;
import levada.requests.View;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.image.publisher.MetadataPublisher;
import org.apache.kafka.metadata.BrokerState;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.security.CredentialProvider;
import org.apache.kafka.server.BrokerLifecycleManager;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.NodeToControllerChannelManager;
import org.apache.kafka.server.config.ConfigType;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.metrics.KafkaMetricsGroup;
import org.apache.kafka.server.metrics.KafkaYammerMetrics;
import org.apache.kafka.server.metrics.LinuxIoMetricsCollector;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import scala.Option;

/**
 * A process of Levada in the place of Kafka's broker. The class has the name of Kafka's, and comes
 * before it on the class path: the test kit and the harnesses of Kafka's tests make their brokers
 * by this constructor. State that Kafka keeps in metadata is read from a {@link View}; state
 * inside the broker does not exist in this JVM, and a test that asks for it is aborted
 * ({@link Outside}).
 */
public class BrokerServer implements KafkaBroker {
    private final SharedServer given;
    private final KafkaConfig config;
    private final Broker process;
    private final Outside outside = new Outside(this);
    private volatile View view;
    private volatile CountDownLatch ended = new CountDownLatch(0);
    private volatile boolean isRunning;
    private String logIdent = "";

    public BrokerServer(SharedServer given) {
        this.given = given;
        config = released(given.brokerConfig());
        process = new Broker(config, given);
    }

    /** The configuration of a broker that offers no version of a request which Kafka has not released. */
    private static KafkaConfig released(KafkaConfig config) {
        Map<Object, Object> values = new HashMap<>(config.props());
        values.put("unstable.api.versions.enable", "false");
        return new KafkaConfig(values, false);
    }

    @Override
    public synchronized void startup() {
        if (isRunning) {
            return;
        }
        ended = new CountDownLatch(1);
        process.start();
        view = process.view();
        view.start();
        isRunning = true;
        process.awaitServing(view::isUnfenced);
    }

    @Override
    public synchronized void shutdown(Duration timeout) {
        if (view != null && ended.getCount() > 0) {
            process.stop(timeout);
            view.stop();
            isRunning = false;
            ended.countDown();
        }
    }

    @Override
    public void awaitShutdown() {
        try {
            ended.await(5, TimeUnit.MINUTES);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public boolean isShutdown() {
        return !isRunning;
    }

    /** The server of the view once the broker has started, and before it the given one. */
    public SharedServer sharedServer() {
        return view == null ? given : view.server();
    }

    @Override
    public KafkaConfig config() {
        return config;
    }

    @Override
    public String clusterId() {
        return given.clusterId();
    }

    @Override
    public int boundPort(ListenerName listener) {
        return process.port(listener.value());
    }

    @Override
    public BrokerState brokerState() {
        if (!isRunning) {
            return BrokerState.NOT_RUNNING;
        }
        return view.isUnfenced() ? BrokerState.RUNNING : BrokerState.RECOVERY;
    }

    @Override
    public KRaftMetadataCache metadataCache() {
        return view.cache();
    }

    @Override
    public Option<Plugin<Authorizer>> authorizerPlugin() {
        return view.authorizer();
    }

    @Override
    public CredentialProvider credentialProvider() {
        return view.credentials();
    }

    @Override
    public DelegationTokenCache tokenCache() {
        return view.tokens();
    }

    public KafkaRaftManager<ApiMessageAndVersion> raftManager() {
        return sharedServer().raftManager();
    }

    @Override
    public SocketServer socketServer() {
        return outside.sockets();
    }

    @Override
    public KafkaApis dataPlaneRequestProcessor() {
        return outside.apis();
    }

    @Override
    public LogManager logManager() {
        return outside.logs();
    }

    @Override
    public ReplicaManager replicaManager() {
        return outside.replicas();
    }

    @Override
    public BrokerLifecycleManager lifecycleManager() {
        return outside.lifecycle();
    }

    @Override
    public KafkaYammerMetrics kafkaYammerMetrics() {
        return KafkaYammerMetrics.INSTANCE;
    }

    @Override
    public Metrics metrics() {
        throw Outside.abort("metrics");
    }

    @Override
    public KafkaRequestHandlerPool dataPlaneRequestHandlerPool() {
        throw Outside.abort("dataPlaneRequestHandlerPool");
    }

    @Override
    public KafkaScheduler kafkaScheduler() {
        throw Outside.abort("kafkaScheduler");
    }

    @Override
    public LogDirFailureChannel logDirFailureChannel() {
        throw Outside.abort("logDirFailureChannel");
    }

    @Override
    public Option<RemoteLogManager> remoteLogManagerOpt() {
        throw Outside.abort("remoteLogManagerOpt");
    }

    @Override
    public QuotaFactory.QuotaManagers quotaManagers() {
        throw Outside.abort("quotaManagers");
    }

    @Override
    public GroupCoordinator groupCoordinator() {
        return outside.groups();
    }

    public GroupConfigManager groupConfigManager() {
        throw Outside.abort("groupConfigManager");
    }

    public TransactionCoordinator transactionCoordinator() {
        throw Outside.abort("transactionCoordinator");
    }

    public BrokerMetadataPublisher brokerMetadataPublisher() {
        throw Outside.abort("brokerMetadataPublisher");
    }

    public List<MetadataPublisher> metadataPublishers() {
        throw Outside.abort("metadataPublishers");
    }

    public scala.collection.Map<ConfigType, ConfigHandler> dynamicConfigHandlers() {
        throw Outside.abort("dynamicConfigHandlers");
    }

    @Override
    public BrokerTopicStats brokerTopicStats() {
        throw Outside.abort("brokerTopicStats");
    }

    @Override
    public NodeToControllerChannelManager clientToControllerChannelManager() {
        throw Outside.abort("clientToControllerChannelManager");
    }

    // What a class of Scala must have for its traits.

    @Override
    public int NumFetchSessionCacheShards() {
        return 8;
    }

    @Override
    public void kafka$server$KafkaBroker$_setter_$NumFetchSessionCacheShards_$eq(int count) {
    }

    @Override
    public void kafka$server$KafkaBroker$_setter_$kafka$server$KafkaBroker$$metricsGroup_$eq(
            KafkaMetricsGroup group) {
    }

    @Override
    public void kafka$server$KafkaBroker$_setter_$kafka$server$KafkaBroker$$linuxIoMetricsCollector_$eq(
            LinuxIoMetricsCollector collector) {
    }

    @Override
    public KafkaMetricsGroup kafka$server$KafkaBroker$$metricsGroup() {
        return null;
    }

    @Override
    public LinuxIoMetricsCollector kafka$server$KafkaBroker$$linuxIoMetricsCollector() {
        return null;
    }

    @Override
    public String logIdent() {
        return logIdent;
    }

    @Override
    public void logIdent_$eq(String ident) {
        logIdent = ident;
    }
}
