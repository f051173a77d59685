package levada.requests;

import java.util.ConcurrentModificationException;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.BrokerHeartbeatRequestData;
import org.apache.kafka.common.message.BrokerRegistrationRequestData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.controller.ControllerRequestContext;
import org.apache.kafka.controller.QuorumController;
import org.apache.kafka.raft.KafkaRaftClient;
import org.apache.kafka.server.BrokerFeatures;

/**
 * Entry of a process that is its own controller at the controller of the test kit, which otherwise
 * has no broker. Some harnesses wait until that controller has as many brokers as the kit. The
 * entry gets one heartbeat; later the controller fences it, which nothing waits for.
 */
final class Registration {
    private Registration() {}

    /** Enters a node in the background, and gives up if its controller ends. */
    static void of(int nodeId, String clusterId, KafkaRaftClient<?> client) {
        Thread thread = new Thread(() -> enter(nodeId, clusterId, client), "registration-of-" + nodeId);
        thread.setDaemon(true);
        thread.start();
    }

    private static void enter(int nodeId, String clusterId, KafkaRaftClient<?> client) {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
        while (System.nanoTime() < end) {
            try {
                Optional<QuorumController> controller = controller(client);
                if (controller.isPresent()) {
                    enter(nodeId, clusterId, controller.get());
                    return;
                }
            } catch (ExecutionException error) {
                // The controller is not active yet, or has ended.
            } catch (InterruptedException error) {
                return;
            }
            Broker.pause();
        }
    }

    private static void enter(int nodeId, String clusterId, QuorumController controller)
            throws ExecutionException, InterruptedException {
        var context = new ControllerRequestContext(new RequestHeaderData(), KafkaPrincipal.ANONYMOUS, OptionalLong.empty());
        var request = new BrokerRegistrationRequestData().setBrokerId(nodeId).setClusterId(clusterId)
            .setIncarnationId(Uuid.randomUuid()).setPreviousBrokerEpoch(-1).setLogDirs(java.util.List.of(Uuid.randomUuid()));
        BrokerFeatures.createDefault(true).supportedFeatures().features().forEach((name, range) ->
            request.features().add(new BrokerRegistrationRequestData.Feature().setName(name)
                .setMinSupportedVersion(range.min()).setMaxSupportedVersion(range.max())));
        request.listeners().add(new BrokerRegistrationRequestData.Listener().setName("PLAINTEXT")
            .setHost("localhost").setPort(1).setSecurityProtocol((short) 0));
        long epoch = controller.registerBroker(context, request).get().epoch();
        controller.processBrokerHeartbeat(context, new BrokerHeartbeatRequestData().setBrokerId(nodeId)
            .setBrokerEpoch(epoch).setCurrentMetadataOffset(epoch).setWantFence(false)).get();
    }

    private static Optional<QuorumController> controller(KafkaRaftClient<?> client) {
        Map<?, ?> listeners = (Map<?, ?>) Shadow.field(KafkaRaftClient.class, "listenerContexts", client);
        try {
            return listeners.keySet().stream().filter(one -> one.getClass().getName().endsWith("$QuorumMetaLogListener"))
                .map(one -> (QuorumController) Shadow.field(one.getClass(), "this$0", one)).findFirst();
        } catch (ConcurrentModificationException error) {
            // The controller adds a listener at this moment.
            return Optional.empty();
        }
    }
}
