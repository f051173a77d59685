package levada.requests;

import java.io.File;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import kafka.cluster.Partition;
import kafka.server.BrokerServer;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeProducersOptions;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsPartition;
import org.apache.kafka.common.message.ListOffsetsRequestData.ListOffsetsTopic;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.requests.ListOffsetsRequest;
import org.apache.kafka.common.requests.ListOffsetsResponse;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.IntegrationTestUtils;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.ProducerStateEntry;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.jdk.javaapi.OptionConverters;

/** Replicas and logs of a broker, as its files and its answers to requests show them. */
final class Replicas {
    /** Version of ListOffsets that is sent. */
    private static final short VERSION = 7;

    private final BrokerServer broker;

    Replicas(BrokerServer broker) {
        this.broker = broker;
    }

    /** The log of a partition, if the broker has a directory of it. */
    Option<UnifiedLog> log(TopicPartition partition) {
        Optional<File> folder = broker.config().logDirs().stream()
            .map(parent -> new File(parent, partition.toString()).getAbsoluteFile()).filter(File::exists).findFirst();
        return OptionConverters.toScala(folder.map(found -> log(partition, found)));
    }

    /** The replica of a partition, if the metadata places one here. */
    Option<Partition> partition(TopicPartition partition) {
        PartitionRegistration registration = registration(partition);
        boolean isHere = registration != null
            && java.util.Arrays.stream(registration.replicas).anyMatch(id -> id == broker.config().nodeId());
        return isHere ? Option.apply(hosted(partition)) : Option.empty();
    }

    private PartitionRegistration registration(TopicPartition partition) {
        var topic = broker.metadataCache().currentImage().topics().getTopic(partition.topic());
        return topic == null ? null : topic.partitions().get(partition.partition());
    }

    private Partition hosted(TopicPartition partition) {
        return Outside.mock(Partition.class, partition.toString(), call -> {
            PartitionRegistration now = registration(partition);
            boolean isLeader = now != null && now.leader == broker.config().nodeId();
            return switch (call.getMethod().getName()) {
                case "topicPartition" -> partition;
                case "topic" -> partition.topic();
                case "partitionId" -> partition.partition();
                case "isLeader" -> isLeader;
                case "getLeaderEpoch" -> now.leaderEpoch;
                case "leaderIdIfLocal" -> isLeader ? Option.apply((Object) now.leader) : Option.empty();
                case "leaderReplicaIdOpt" -> Option.apply((Object) now.leader);
                case "inSyncReplicaIds" -> CollectionConverters.asScala(
                    java.util.Arrays.stream(now.isr).mapToObj(id -> (Object) id).toList()).toSet();
                case "log" -> log(partition);
                case "leaderLogIfLocal" -> isLeader ? log(partition) : Option.empty();
                case "localLogOrException" -> log(partition).get();
                default -> throw Outside.abort(call);
            };
        });
    }

    private UnifiedLog log(TopicPartition partition, File folder) {
        return Outside.mock(UnifiedLog.class, partition.toString(), call -> switch (call.getMethod().getName()) {
            case "topicPartition" -> partition;
            case "name" -> folder.getName();
            case "dir" -> folder;
            case "parentDir" -> folder.getParent();
            case "parentDirFile" -> folder.getParentFile();
            case "topicId" -> Optional.ofNullable(broker.metadataCache().topicNamesToIds().get(partition.topic()));
            case "logStartOffset" ->
                offset(partition, ListOffsetsRequest.EARLIEST_TIMESTAMP, ListOffsetsRequest.DEBUGGING_REPLICA_ID);
            case "logEndOffset" ->
                offset(partition, ListOffsetsRequest.LATEST_TIMESTAMP, ListOffsetsRequest.DEBUGGING_REPLICA_ID);
            case "highWatermark" ->
                offset(partition, ListOffsetsRequest.LATEST_TIMESTAMP, ListOffsetsRequest.CONSUMER_REPLICA_ID);
            case "numberOfSegments" -> segments(folder).size();
            case "size" -> segments(folder).stream().mapToLong(File::length).sum();
            case "config" -> config(partition.topic());
            case "producerStateManager" -> producers(partition);
            default -> throw Outside.abort(call);
        });
    }

    private static List<File> segments(File folder) {
        File[] files = folder.listFiles((parent, name) -> name.endsWith(".log"));
        return files == null ? List.of() : List.of(files);
    }

    private long offset(TopicPartition partition, long timestamp, int replica) {
        var topic = new ListOffsetsTopic().setName(partition.topic()).setPartitions(List.of(
            new ListOffsetsPartition().setPartitionIndex(partition.partition()).setTimestamp(timestamp)));
        var request = ListOffsetsRequest.Builder.forReplica(VERSION, replica).setTargetTimes(List.of(topic));
        try {
            ListOffsetsResponse response = IntegrationTestUtils.connectAndReceive(request.build(VERSION), port());
            return response.topics().get(0).partitions().get(0).offset();
        } catch (IOException error) {
            throw new IllegalStateException("no offsets of " + partition, error);
        }
    }

    /** Keys of the topic that are in force at the broker. */
    private LogConfig config(String topic) {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", "localhost:" + port()))) {
            var entries = admin.describeConfigs(List.of(resource)).all().get().get(resource).entries();
            return new LogConfig(entries.stream().filter(entry -> entry.value() != null && isKafkas(entry))
                .collect(Collectors.toMap(ConfigEntry::name, ConfigEntry::value)));
        } catch (ExecutionException error) {
            throw new IllegalStateException("no configuration of " + topic, error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", error);
        }
    }

    /** States of the producers of a partition. */
    private ProducerStateManager producers(TopicPartition partition) {
        return Outside.mock(ProducerStateManager.class, partition.toString(), call -> {
            if (!call.getMethod().getName().equals("activeProducers")) {
                throw Outside.abort(call);
            }
            DescribeProducersOptions here = new DescribeProducersOptions().brokerId(broker.config().nodeId());
            try (Admin admin = Admin.create(Map.of("bootstrap.servers", "localhost:" + port()))) {
                return admin.describeProducers(List.of(partition), here).all().get().get(partition)
                    .activeProducers().stream().collect(Collectors.toMap(ProducerState::producerId, Replicas::entry));
            }
        });
    }

    private static ProducerStateEntry entry(ProducerState state) {
        return new ProducerStateEntry(state.producerId(), (short) state.producerEpoch(),
            state.coordinatorEpoch().orElse(-1), state.lastTimestamp(), state.currentTransactionStartOffset());
    }

    private static boolean isKafkas(ConfigEntry entry) {
        return !entry.name().startsWith("levada.");
    }

    /** The port of a listener that needs no user. */
    private int port() {
        int port = broker.boundPort(new ListenerName("PLAINTEXT"));
        port = port == 0 ? broker.boundPort(new ListenerName("EXTERNAL")) : port;
        if (port == 0) {
            throw Outside.abort("a log of a broker without a listener for everyone");
        }
        return port;
    }
}
