package levada.requests;

import java.io.File;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import kafka.log.LogManager;
import kafka.network.SocketServer;
import kafka.server.BrokerServer;
import kafka.server.KafkaApis;
import kafka.server.ReplicaManager;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.server.BrokerLifecycleManager;
import org.mockito.Mockito;
import org.mockito.invocation.InvocationOnMock;
import org.mockito.stubbing.Answer;
import org.opentest4j.TestAbortedException;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Stands in for the parts inside a broker. It answers what can be seen from outside the process; any
 * other call aborts the test, which then counts as one that cannot run.
 */
public final class Outside {
    /** The beginning of the message of an aborted test. */
    static final String REASON = "reaches into the broker: ";

    private final BrokerServer broker;
    private final Replicas replicas;
    private final Map<Class<?>, Object> parts = new HashMap<>();

    public Outside(BrokerServer broker) {
        this.broker = broker;
        replicas = new Replicas(broker);
    }

    /** The error that aborts a test which asks for this part. */
    public static TestAbortedException abort(String part) {
        return new TestAbortedException(REASON + part);
    }

    public SocketServer sockets() {
        return part(SocketServer.class, call -> switch (call.getMethod().getName()) {
            case "boundPort" -> broker.boundPort((ListenerName) call.getArgument(0));
            default -> throw abort(call);
        });
    }

    public KafkaApis apis() {
        return part(KafkaApis.class, call -> switch (call.getMethod().getName()) {
            case "isConsumerGroupProtocolEnabled" -> true;
            case "metadataCache" -> broker.metadataCache();
            case "clusterId" -> broker.clusterId();
            case "brokerId" -> broker.config().nodeId();
            case "authorizerPlugin" -> broker.authorizerPlugin();
            case "replicaManager" -> replicas();
            default -> throw abort(call);
        });
    }

    public LogManager logs() {
        return part(LogManager.class, call -> switch (call.getMethod().getName()) {
            case "getLog" -> replicas.log(call.getArgument(0));
            case "getLog$default$2" -> false;
            case "liveLogDirs" -> CollectionConverters.asScala(
                broker.config().logDirs().stream().map(name -> new File(name).getAbsoluteFile()).toList()).toSeq();
            default -> throw abort(call);
        });
    }

    public ReplicaManager replicas() {
        return part(ReplicaManager.class, call -> switch (call.getMethod().getName()) {
            case "onlinePartition" -> replicas.partition(call.getArgument(0));
            case "getPartitionOrException" -> replicas.partition(partition(call.getArgument(0))).get();
            case "getLog", "localLog" -> replicas.log(call.getArgument(0));
            case "localLogOrException" -> replicas.log(call.getArgument(0)).get();
            case "logManager" -> logs();
            case "metadataCache" -> broker.metadataCache();
            default -> throw abort(call);
        });
    }

    private static TopicPartition partition(Object argument) {
        return argument instanceof TopicIdPartition known ? known.topicPartition() : (TopicPartition) argument;
    }

    public GroupCoordinator groups() {
        return part(GroupCoordinator.class, call -> switch (call.getMethod().getName()) {
            case "groupMetadataTopicConfigs" -> {
                Properties properties = new Properties();
                properties.setProperty("cleanup.policy", "compact");
                properties.setProperty("compression.type", "producer");
                properties.setProperty("segment.bytes",
                    Integer.toString(broker.config().groupCoordinatorConfig().offsetsTopicSegmentBytes()));
                yield properties;
            }
            case "partitionFor" -> Utils.abs(call.getArgument(0).hashCode())
                % broker.config().groupCoordinatorConfig().offsetsTopicPartitions();
            default -> throw abort(call);
        });
    }

    public BrokerLifecycleManager lifecycle() {
        return part(BrokerLifecycleManager.class, call -> switch (call.getMethod().getName()) {
            case "brokerEpoch" ->
                broker.metadataCache().currentImage().cluster().broker(broker.config().nodeId()).epoch();
            case "initialUnfenceFuture" -> CompletableFuture.completedFuture(null);
            default -> throw abort(call);
        });
    }

    static TestAbortedException abort(InvocationOnMock call) {
        return abort(call.getMethod().getDeclaringClass().getSimpleName() + "." + call.getMethod().getName());
    }

    private <T> T part(Class<T> type, Answer<Object> answer) {
        String name = type.getSimpleName() + " of broker " + broker.config().nodeId();
        return type.cast(parts.computeIfAbsent(type, key -> mock(type, name, answer)));
    }

    /** An object whose methods all call this answer, but for those of any object. */
    static <T> T mock(Class<T> type, String name, Answer<Object> answer) {
        return Mockito.mock(type, Mockito.withSettings().stubOnly().defaultAnswer(call ->
            switch (call.getMethod().getName()) {
                case "toString" -> name;
                case "hashCode" -> System.identityHashCode(call.getMock());
                default -> answer.answer(call);
            }));
    }
}
