import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataCache;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogSegmentMetadataSnapshot;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemoteLogManager;
import org.apache.kafka.server.log.remote.storage.RemoteLogMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentId;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadataUpdate;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentState;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteState;

/**
 * Kafka's metadata of tiered storage. Each line of standard input is a question as JSON, and one line answers it:
 * {@code {"do": "encode", RECORD}}: the bytes in hexadecimal digits; {@code {"do": "partition", "topicId", "partition",
 * "count"}}: the partition of the metadata topic; {@code {"do": "lineage", SEGMENT, "end", "lineage": [[EPOCH, START]...]}}:
 * true or false; {@code {"do": "new"}}: a new cache; {@code {"do": "apply", RECORD}}: the name of the exception, or null;
 * {@code {"do": "state", "epochs": COUNT, "offsets": COUNT}}: the answers of the cache's methods.
 */
public final class RemoteMetadata {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static RemoteLogMetadataCache cache;

    private RemoteMetadata() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static Object answer(JsonNode question) throws Exception {
        return switch (question.get("do").asText()) {
            case "encode" -> HexFormat.of().formatHex(new RemoteLogMetadataSerde().serialize(record(question)));
            case "partition" -> {
                var partition = new TopicIdPartition(id(question.get("topicId")), question.get("partition").asInt(), "t");
                yield new RemoteLogMetadataTopicPartitioner(question.get("count").asInt()).metadataPartition(partition);
            }
            case "lineage" -> call(method(RemoteLogManager.class, "isRemoteSegmentWithinLeaderEpochs"), null,
                record(question), question.get("end").asLong(), epochs(question.get("lineage")));
            case "new" -> {
                cache = new RemoteLogMetadataCache();
                call(method(RemoteLogMetadataCache.class, "markInitialized"), cache);
                yield null;
            }
            case "apply" -> apply(record(question));
            case "state" -> state(question.get("epochs").asInt(), question.get("offsets").asLong());
            default -> throw new IllegalArgumentException(question.toString());
        };
    }

    private static RemoteLogMetadata record(JsonNode question) {
        int broker = question.get("broker").asInt();
        long time = question.get("time").asLong();
        byte state = (byte) question.get("state").asInt();
        if (question.get("kind").asText().equals("delete")) {
            return new RemotePartitionDeleteMetadata(partition(question), RemotePartitionDeleteState.forId(state), time, broker);
        }
        Optional<CustomMetadata> custom = Optional.ofNullable(question.get("custom")).filter(JsonNode::isTextual)
            .map(text -> new CustomMetadata(HexFormat.of().parseHex(text.asText())));
        RemoteLogSegmentState segmentState = RemoteLogSegmentState.forId(state);
        if (question.get("kind").asText().equals("snapshot")) {
            return new RemoteLogSegmentMetadataSnapshot(id(question.get("id")), question.get("start").asLong(),
                question.get("end_offset").asLong(), question.get("maxTime").asLong(), broker, time,
                question.get("size").asInt(), custom, segmentState, epochs(question.get("epochs")),
                question.get("txnIndexEmpty").asBoolean());
        }
        var segment = new RemoteLogSegmentId(partition(question), id(question.get("id")));
        var update = new RemoteLogSegmentMetadataUpdate(segment, time, custom, segmentState, broker);
        if (question.get("kind").asText().equals("update")) {
            return update;
        }
        return new RemoteLogSegmentMetadata(segment, question.get("start").asLong(), question.get("end_offset").asLong(),
            question.get("maxTime").asLong(), broker, time, question.get("size").asInt(), epochs(question.get("epochs")),
            question.get("txnIndexEmpty").asBoolean()).createWithUpdates(update);
    }

    private static TopicIdPartition partition(JsonNode question) {
        return new TopicIdPartition(id(question.get("topicId")), question.get("partition").asInt(), question.get("topic").asText());
    }

    private static Uuid id(JsonNode text) {
        return Uuid.fromString(text.asText());
    }

    private static NavigableMap<Integer, Long> epochs(JsonNode list) {
        NavigableMap<Integer, Long> epochs = new TreeMap<>();
        list.forEach(one -> epochs.put(one.get(0).asInt(), one.get(1).asLong()));
        return epochs;
    }

    private static Object apply(RemoteLogMetadata record) throws Exception {
        String name = record instanceof RemoteLogSegmentMetadata ? "addCopyInProgressSegment" : "updateRemoteLogSegmentMetadata";
        try {
            call(method(RemoteLogMetadataCache.class, name), cache, record);
        } catch (Exception failed) {
            return failed.getClass().getSimpleName();
        }
        return null;
    }

    private static ObjectNode state(int epochs, long offsets) throws Exception {
        ObjectNode state = JSON.createObjectNode();
        state.set("all", ids((Iterator<?>) call(method(RemoteLogMetadataCache.class, "listAllRemoteLogSegments"), cache)));
        ArrayNode list = state.putArray("epochs");
        for (int epoch = 0; epoch < epochs; epoch++) {
            ObjectNode one = list.addObject();
            one.set("ids", ids((Iterator<?>) call(method(RemoteLogMetadataCache.class, "listRemoteLogSegments"), cache, epoch)));
            one.putPOJO("highest", ((Optional<?>) call(method(RemoteLogMetadataCache.class, "highestOffsetForEpoch"), cache, epoch))
                .orElse(null));
            ArrayNode found = one.putArray("found");
            ArrayNode transactions = one.putArray("transactions");
            for (long offset = 0; offset < offsets; offset++) {
                found.add(idOf(call(method(RemoteLogMetadataCache.class, "remoteLogSegmentMetadata"), cache, epoch, offset)));
                transactions.add(idOf(call(method(RemoteLogMetadataCache.class, "nextSegmentWithTxnIndex"), cache, epoch, offset)));
            }
        }
        return state;
    }

    private static ArrayNode ids(Iterator<?> segments) {
        TreeSet<String> ids = new TreeSet<>();
        segments.forEachRemaining(segment -> {
            RemoteLogSegmentMetadata metadata = (RemoteLogSegmentMetadata) segment;
            ids.add(metadata.remoteLogSegmentId().id() + " " + metadata.state().id());
        });
        return JSON.valueToTree(ids);
    }

    private static String idOf(Object segment) {
        return ((Optional<?>) segment).map(one -> ((RemoteLogSegmentMetadata) one).remoteLogSegmentId().id().toString())
            .orElse(null);
    }

    /** The method of this name that callers use: the one that is not private. */
    private static Method method(Class<?> owner, String name) {
        for (Method method : owner.getDeclaredMethods()) {
            boolean isOwn = !method.isSynthetic() && !java.lang.reflect.Modifier.isPrivate(method.getModifiers());
            boolean isPerPartition = method.getReturnType() != long.class;
            if (method.getName().equals(name) && isOwn && isPerPartition) {
                method.setAccessible(true);
                return method;
            }
        }
        throw new IllegalArgumentException(name);
    }

    private static Object call(Method method, Object target, Object... values) throws Exception {
        try {
            return method.invoke(target, values);
        } catch (InvocationTargetException failed) {
            if (failed.getCause() instanceof Exception cause) {
                throw cause;
            }
            throw failed;
        }
    }
}
