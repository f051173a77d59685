package levada.requests;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import kafka.server.KafkaConfig;
import kafka.server.SharedServer;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.loader.LoaderManifest;
import org.apache.kafka.image.publisher.MetadataPublisher;
import org.apache.kafka.metadata.BrokerRegistration;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.metadata.properties.MetaProperties;
import org.apache.kafka.metadata.properties.MetaPropertiesEnsemble;
import org.apache.kafka.metadata.properties.MetaPropertiesVersion;
import org.apache.kafka.metadata.publisher.AclPublisher;
import org.apache.kafka.metadata.publisher.DelegationTokenPublisher;
import org.apache.kafka.metadata.publisher.ScramPublisher;
import org.apache.kafka.security.CredentialProvider;
import org.apache.kafka.security.DelegationTokenManager;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.config.DelegationTokenManagerConfigs;
import scala.Option;
import scala.jdk.javaapi.OptionConverters;

/**
 * An observer of the metadata quorum in this JVM, which shows a test the metadata that the process
 * beside it has applied: it waits for the process before it applies a change. Its node id differs
 * from that of the process by {@link #OFFSET}.
 */
final class Shadow implements View {
    /** Distance of the node ids of shadows from those of brokers and controllers. */
    private static final int OFFSET = 100_000;

    private final Broker process;
    private final int nodeId;
    private final Path directory;
    private final SharedServer server;
    private final KRaftMetadataCache cache;
    private final Option<Plugin<Authorizer>> authorizer;
    private final DelegationTokenCache tokens = new DelegationTokenCache(ScramMechanism.mechanismNames());
    private final CredentialProvider credentials =
        new CredentialProvider(ScramMechanism.mechanismNames(), tokens);
    private final DelegationTokenManager manager;

    /** An observer of the controllers of this broker; it reads nothing before {@link #start}. */
    Shadow(SharedServer given, KafkaConfig config, Broker process) {
        this.process = process;
        nodeId = config.nodeId();
        try {
            directory = Files.createTempDirectory("shadow");
        } catch (IOException error) {
            throw new IllegalStateException("no directory for a shadow", error);
        }
        KafkaConfig own = config(config);
        Metrics metrics = new Metrics();
        server = new SharedServer(own, identity(given.clusterId()), given.time(), metrics,
            given.controllerQuorumVotersFuture(), given.bootstrapServers(), given.faultHandlerFactory(),
            given.socketFactory());
        cache = new KRaftMetadataCache(nodeId, () -> server.raftManager().client().kraftVersion());
        authorizer = config.createNewAuthorizer(metrics, "broker");
        manager = new DelegationTokenManager(new DelegationTokenManagerConfigs(config), tokens);
    }

    private KafkaConfig config(KafkaConfig config) {
        Map<String, Object> values = new HashMap<>();
        config.props().forEach((key, value) -> values.put(key.toString(), value));
        values.remove("broker.id");
        values.put("node.id", Integer.toString(nodeId + OFFSET));
        values.put("process.roles", "broker");
        values.put("log.dirs", directory.toString());
        values.put("metadata.log.dir", directory.toString());
        return new KafkaConfig(values, false);
    }

    private MetaPropertiesEnsemble identity(String clusterId) {
        MetaPropertiesEnsemble.Copier copier = new MetaPropertiesEnsemble.Copier(MetaPropertiesEnsemble.EMPTY);
        copier.setMetaLogDir(Optional.of(directory.toString()));
        copier.setLogDirProps(directory.toString(), new MetaProperties.Builder()
            .setVersion(MetaPropertiesVersion.V1)
            .setClusterId(clusterId)
            .setNodeId(nodeId + OFFSET)
            .setDirectoryId(Uuid.randomUuid())
            .build());
        return copier.copy();
    }

    @Override
    public void start() {
        server.startForBroker();
        var faults = server.metadataPublishingFaultHandler();
        List<MetadataPublisher> publishers = List.of(
            new Following(),
            new ScramPublisher(nodeId, faults, "broker", credentials),
            new DelegationTokenPublisher(nodeId, faults, "broker", manager),
            new AclPublisher(nodeId, faults, "broker", OptionConverters.toJava(authorizer)));
        try {
            server.loader().installPublishers(publishers).get(1, TimeUnit.MINUTES);
        } catch (Exception error) {
            throw new IllegalStateException("a shadow cannot follow the metadata", error);
        }
    }

    @Override
    public void stop() {
        server.stopForBroker();
        authorizer.foreach(plugin -> {
            Utils.closeQuietly(plugin, "authorizer");
            return null;
        });
        try {
            Utils.delete(directory.toFile());
        } catch (IOException error) {
            throw new IllegalStateException(directory + " cannot be deleted", error);
        }
    }

    @Override
    public SharedServer server() {
        return server;
    }

    @Override
    public KRaftMetadataCache cache() {
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

    /** Applies a change once the process has. */
    private final class Following implements MetadataPublisher {
        @Override
        public String name() {
            return "levada";
        }

        @Override
        public void onMetadataUpdate(MetadataDelta delta, MetadataImage image, LoaderManifest manifest) {
            if (!isIdle(delta)) {
                process.awaitApplied(image.provenance().lastContainedOffset());
            }
            cache.setImage(image);
        }

        @Override
        public void close() {
        }

        private boolean isIdle(MetadataDelta delta) {
            return delta.topicsDelta() == null && delta.aclsDelta() == null && delta.configsDelta() == null
                && delta.featuresDelta() == null && delta.scramDelta() == null
                && delta.clientQuotasDelta() == null && delta.delegationTokenDelta() == null
                && delta.clusterDelta() == null;
        }
    }
}
