package levada.requests;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import kafka.server.KafkaConfig;
import kafka.server.SharedServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCache;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.metadata.KRaftMetadataCache;
import org.apache.kafka.security.CredentialProvider;
import org.apache.kafka.server.authorizer.Authorizer;
import org.apache.kafka.server.common.KRaftVersion;
import org.apache.kafka.server.common.MetadataVersion;
import scala.Option;

/**
 * View of a process that is its own controller, and that takes the place of a node of Kafka which is
 * broker and controller. The controller of the test kit runs beside it without a broker. The
 * metadata is that which the process answers to an administrator.
 */
final class Standalone implements View {
    private final SharedServer given;
    private final KafkaConfig config;
    private final Broker process;

    Standalone(SharedServer given, KafkaConfig config, Broker process) {
        this.given = given;
        this.config = config;
        this.process = process;
    }

    @Override
    public void start() {
        given.startForBroker();
        Registration.of(config.nodeId(), given.clusterId(), given.raftManager().client());
    }

    @Override
    public void stop() {
        given.stopForBroker();
    }

    @Override
    public boolean isUnfenced() {
        return process.isReady();
    }

    @Override
    public SharedServer server() {
        return given;
    }

    /** The present topics and brokers. Blocks for the answers of the process. */
    @Override
    public KRaftMetadataCache cache() {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        delta.replay(new FeatureLevelRecord().setName(MetadataVersion.FEATURE_NAME)
            .setFeatureLevel(MetadataVersion.latestProduction().featureLevel()));
        if (process.isReady()) {
            try (Admin admin = Admin.create(client())) {
                for (Node node : admin.describeCluster().nodes().get()) {
                    delta.replay(broker(node));
                }
                for (String topic : admin.listTopics(new org.apache.kafka.clients.admin.ListTopicsOptions()
                        .listInternal(true)).names().get()) {
                    describe(admin, topic, delta);
                }
            } catch (ExecutionException error) {
                throw new IllegalStateException("the broker does not describe its topics", error);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
        KRaftMetadataCache cache = new KRaftMetadataCache(config.nodeId(), () -> KRaftVersion.LATEST_PRODUCTION);
        cache.setImage(delta.apply(new MetadataProvenance(0, 0, 0, true)));
        return cache;
    }

    private Map<String, Object> client() {
        Map<String, Object> values = new HashMap<>();
        var listener = config.effectiveAdvertisedBrokerListeners().head();
        values.put("bootstrap.servers", "localhost:" + process.port(listener.listener()));
        if (listener.securityProtocol() == SecurityProtocol.SASL_PLAINTEXT) {
            values.put("security.protocol", listener.securityProtocol().name);
            values.put("sasl.mechanism", "PLAIN");
            values.put("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"%s\" password=\"%s\";",
                JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD));
        }
        return values;
    }

    private RegisterBrokerRecord broker(Node node) {
        RegisterBrokerRecord record = new RegisterBrokerRecord().setBrokerId(node.id()).setBrokerEpoch(1)
            .setFenced(false).setIncarnationId(Uuid.ONE_UUID).setLogDirs(List.of(Uuid.ONE_UUID));
        var listener = config.effectiveAdvertisedBrokerListeners().head();
        record.endPoints().add(new RegisterBrokerRecord.BrokerEndpoint().setName(listener.listener())
            .setHost(node.host()).setPort(node.port()).setSecurityProtocol(listener.securityProtocol().id));
        return record;
    }

    private static void describe(Admin admin, String topic, MetadataDelta delta)
            throws ExecutionException, InterruptedException {
        TopicDescription description;
        try {
            description = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        } catch (ExecutionException error) {
            if (error.getCause() instanceof org.apache.kafka.common.errors.UnknownTopicOrPartitionException) {
                return;
            }
            throw error;
        }
        delta.replay(new TopicRecord().setName(topic).setTopicId(description.topicId()));
        for (TopicPartitionInfo partition : description.partitions()) {
            int leader = partition.leader() == null ? -1 : partition.leader().id();
            List<Integer> replicas = partition.replicas().stream().map(Node::id).toList();
            delta.replay(new PartitionRecord().setTopicId(description.topicId())
                .setPartitionId(partition.partition()).setLeader(leader).setReplicas(replicas)
                .setIsr(partition.isr().stream().map(Node::id).toList()).setLeaderEpoch(0).setPartitionEpoch(0)
                .setDirectories(replicas.stream().map(replica -> Uuid.ONE_UUID).toList()));
        }
    }

    @Override
    public Option<Plugin<Authorizer>> authorizer() {
        throw Outside.abort("authorizerPlugin of a broker that is its own controller");
    }

    @Override
    public DelegationTokenCache tokens() {
        throw Outside.abort("tokenCache of a broker that is its own controller");
    }

    @Override
    public CredentialProvider credentials() {
        throw Outside.abort("credentialProvider of a broker that is its own controller");
    }
}
