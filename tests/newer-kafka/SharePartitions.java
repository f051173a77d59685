import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.NavigableMap;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Supplier;
import kafka.server.share.SharePartition;
import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfigProvider;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.dlq.ShareGroupDLQManager;
import org.apache.kafka.server.share.dlq.ShareGroupDLQRecordParameter;
import org.apache.kafka.server.share.fetch.AcquisitionLockTimerTask;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.persister.DeleteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.DeleteShareGroupStateResult;
import org.apache.kafka.server.share.persister.InitializeShareGroupStateParameters;
import org.apache.kafka.server.share.persister.InitializeShareGroupStateResult;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.Persister;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.ReadShareGroupStateSummaryParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateSummaryResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;

/**
 * Kafka's share partition, with a clock, a persister and a dead letter queue that standard input drives. Each line is a command as
 * JSON, and one line answers it: the result of the command, the writes and the dead letters that it began, and the whole state.
 * Writes and dead letters end by commands. An exception that Kafka's class throws is in
 * {@code thrown}.
 */
public final class SharePartitions {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final TopicIdPartition PARTITION = new TopicIdPartition(new Uuid(1, 2), new TopicPartition("topic", 0));

    /** A write whose end standard input decides. */
    private record Write(PartitionStateBatchData data, CompletableFuture<WriteShareGroupStateResult> end) {}

    /** Dead letters whose end standard input decides. */
    private record Letters(ShareGroupDLQRecordParameter records, CompletableFuture<Void> end) {}

    private static long nowMs;
    private static JsonNode limits;
    private static JsonNode stored;
    private static final List<AcquisitionLockTimerTask> TASKS = new ArrayList<>();
    /** Writes of each command that began some. */
    private static final List<List<Write>> WRITES = new ArrayList<>();
    private static final List<Letters> LETTERS = new ArrayList<>();
    private static List<Write> fresh = new ArrayList<>();
    /** Number of dead letters of former commands. */
    private static int told;
    private static SharePartition partition;

    private SharePartitions() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode command = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            fresh = new ArrayList<>();
            told = LETTERS.size();
            try {
                run(command, answer);
            } catch (RuntimeException failed) {
                answer.put("thrown", failed.toString());
            }
            describeWrites(answer.putArray("writes"));
            describeLetters(answer.putArray("letters"), LETTERS.subList(told, LETTERS.size()));
            if (!answer.has("thrown")) {
                describe(answer);
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
    }

    private static void run(JsonNode command, ObjectNode answer) throws Exception {
        switch (command.get("do").asText()) {
            case "limits" -> limits = command;
            case "load" -> load(command);
            case "fetch" -> fetch(command, answer);
            case "ack" -> acknowledge(command, answer);
            case "end" -> partition.releaseAcquiredRecords(command.get("member").asText());
            case "pass" -> pass(command.get("ms").asLong());
            case "log" -> call("updateCacheAndOffsets", command.get("start").asLong());
            case "write" -> end(WRITES.remove(command.get("index").asInt()), command.get("stored").asBoolean());
            case "letters" -> command.get("indices").forEach(index -> LETTERS.get(index.asInt()).end().complete(null));
            default -> throw new IllegalArgumentException(command.toString());
        }
    }

    private static void load(JsonNode command) throws Exception {
        stored = command;
        TASKS.clear();
        WRITES.clear();
        LETTERS.clear();
        told = 0;
        Constructor<?> constructor = Arrays.stream(SharePartition.class.getDeclaredConstructors())
            .min(Comparator.comparing(Constructor::getParameterCount)).orElseThrow();
        constructor.setAccessible(true);
        Consumer<Object> unheard = key -> { };
        Supplier<Boolean> always = () -> true;
        partition = (SharePartition) constructor.newInstance("group", PARTITION, 0, 0, 0, 0, new Locks(), new Clock(), new Stored(),
            null, unheard, new Limits(), null, always, new Queue());
        partition.maybeInitialize().join();
    }

    private static void fetch(JsonNode command, ObjectNode answer) {
        ByteBuffer buffer = ByteBuffer.allocate(65_536);
        List<AbortedTransaction> aborted = new ArrayList<>();
        for (JsonNode batch : command.get("batches")) {
            long base = batch.get(0).asLong();
            if (batch.get(2).asBoolean()) {
                aborted.add(new AbortedTransaction().setProducerId(1_000 + base).setFirstOffset(base));
            }
            MemoryRecordsBuilder records = MemoryRecords.builder(buffer, (byte) 2, Compression.NONE, TimestampType.CREATE_TIME, base,
                0, 1_000 + base, (short) 0, 0, true, 0);
            records.appendWithOffset(base, 0, null, new byte[0]);
            if (batch.get(1).asLong() > base) {
                records.appendWithOffset(batch.get(1).asLong(), 0, null, new byte[0]);
            }
            records.close();
        }
        buffer.flip();
        FetchPartitionData data = new FetchPartitionData(Errors.NONE, 100_000, 0, MemoryRecords.readableRecords(buffer), Optional.empty(),
            OptionalLong.empty(), Optional.of(aborted), OptionalInt.empty(), false);
        ShareAcquireMode mode = command.get("exact").asBoolean() ? ShareAcquireMode.RECORD_LIMIT : ShareAcquireMode.BATCH_OPTIMIZED;
        var acquired = partition.acquire(command.get("member").asText(), mode, command.get("size").asInt(), command.get("max").asInt(),
            command.get("at").asLong(), data, FetchIsolation.TXN_COMMITTED);
        ArrayNode found = answer.putArray("acquired");
        acquired.acquiredRecords().forEach(part ->
            found.addArray().add(part.firstOffset()).add(part.lastOffset()).add(part.deliveryCount()));
        answer.put("count", acquired.count());
    }

    private static void acknowledge(JsonNode command, ObjectNode answer) {
        List<ShareAcknowledgementBatch> batches = new ArrayList<>();
        for (JsonNode batch : command.get("batches")) {
            List<Byte> types = new ArrayList<>();
            batch.get(2).forEach(type -> types.add((byte) type.asInt()));
            batches.add(new ShareAcknowledgementBatch(batch.get(0).asLong(), batch.get(1).asLong(), types));
        }
        CompletableFuture<Void> end = partition.acknowledge(command.get("member").asText(), batches);
        // An acknowledgement that is accepted ends with its write.
        answer.put("error", "NONE");
        end.whenComplete((nothing, error) -> answer.put("error", Errors.forException(error).name()));
    }

    /** Moves the clock. The locks that end meanwhile are released in the order of their ends. */
    private static void pass(long ms) {
        nowMs += ms;
        List<AcquisitionLockTimerTask> due = new ArrayList<>(TASKS);
        due.removeIf(task -> task.expirationMs() > nowMs);
        TASKS.removeAll(due);
        due.sort(Comparator.comparing(AcquisitionLockTimerTask::expirationMs));
        due.stream().filter(task -> !task.isCancelled()).forEach(AcquisitionLockTimerTask::run);
        TASKS.removeIf(TimerTask::isCancelled);
    }

    private static void end(List<Write> writes, boolean isStored) {
        Errors error = isStored ? Errors.NONE : Errors.COORDINATOR_NOT_AVAILABLE;
        writes.forEach(write -> write.end.complete(new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(
            PARTITION.topicId(), List.of(PartitionFactory.newPartitionErrorData(0, error.code(), error.message()))))).build()));
    }

    private static void describeWrites(ArrayNode all) {
        if (!fresh.isEmpty()) {
            WRITES.add(fresh);
        }
        for (Write write : fresh) {
            ObjectNode one = all.addObject().put("start", write.data.startOffset()).put("complete", write.data.deliveryCompleteCount());
            ArrayNode spans = one.putArray("spans");
            write.data.stateBatches().forEach(span -> spans.addArray().add(span.firstOffset()).add(span.lastOffset())
                .add(span.deliveryState()).add(span.deliveryCount()));
        }
    }

    private static void describeLetters(ArrayNode all, List<Letters> letters) {
        for (Letters one : letters) {
            ShareGroupDLQRecordParameter records = one.records;
            boolean isRejected = records.cause().orElse(null) == ShareGroupDLQManager.CLIENT_REJECT;
            all.addArray().add(records.firstOffset()).add(records.lastOffset()).add(records.deliveryCount().orElse((short) -1))
                .add(isRejected);
        }
    }

    private static void describe(ObjectNode answer) throws Exception {
        if (partition == null) {
            return;
        }
        answer.put("start", (long) call("startOffset")).put("end", (long) call("endOffset"));
        answer.put("complete", (int) call("deliveryCompleteCount")).put("can", (boolean) call("canAcquireRecords"));
        answer.put("next", partition.nextFetchOffset());
        ArrayNode records = answer.putArray("records");
        @SuppressWarnings("unchecked")
        NavigableMap<Long, InFlightBatch> batches = (NavigableMap<Long, InFlightBatch>) call("cachedState");
        for (InFlightBatch batch : batches.values()) {
            if (batch.offsetState() == null) {
                records.addArray().add(batch.firstOffset()).add(batch.lastOffset()).add(batch.batchState().id).add(batch.batchDeliveryCount())
                    .add(batch.batchMemberId()).add(batch.batchHasOngoingStateTransition());
            } else {
                batch.offsetState().forEach((offset, state) -> describe(records.addArray().add(offset).add(offset), state));
            }
        }
    }

    private static void describe(ArrayNode record, InFlightState state) {
        record.add(state.state().id).add(state.deliveryCount()).add(state.memberId()).add(state.hasOngoingStateTransition());
    }

    /** Calls a method of the share partition that only Kafka's own package may call. */
    private static Object call(String name, Object... arguments) throws Exception {
        if (partition == null) {
            return null;
        }
        Method method = Arrays.stream(SharePartition.class.getDeclaredMethods())
            .filter(one -> one.getName().equals(name)).findFirst().orElseThrow();
        method.setAccessible(true);
        try {
            return method.invoke(partition, arguments);
        } catch (InvocationTargetException failed) {
            throw failed.getCause() instanceof RuntimeException cause ? cause : failed;
        }
    }

    private static final class Clock implements Time {
        @Override
        public long milliseconds() {
            return nowMs;
        }

        @Override
        public long nanoseconds() {
            return nowMs * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException("sleep");
        }
    }

    private static final class Locks implements Timer {
        @Override
        public void add(TimerTask task) {
            AcquisitionLockTimerTask lock = (AcquisitionLockTimerTask) task;
            // The entry gives itself to the task, which without one counts as cancelled.
            new TimerTaskEntry(lock, lock.expirationMs());
            TASKS.add(lock);
        }

        @Override
        public boolean advanceClock(long ms) {
            throw new UnsupportedOperationException("advanceClock");
        }

        @Override
        public int size() {
            return TASKS.size();
        }

        @Override
        public void close() { }
    }

    private static final class Limits extends ShareGroupConfigProvider {
        Limits() {
            super(null);
        }

        @Override
        public int recordLockDurationMsOrDefault(String group, int other) {
            return limits.get("lock").asInt();
        }

        @Override
        public int deliveryCountLimitOrDefault(String group, int other) {
            return limits.get("attempts").asInt();
        }

        @Override
        public int partitionMaxRecordLocksOrDefault(String group, int other) {
            return limits.get("locks").asInt();
        }

        @Override
        public boolean isRenewAcknowledgeEnabled(String group) {
            return limits.get("renew").asBoolean();
        }

        @Override
        public Optional<String> errorsDLQTopicName(String group) {
            return limits.get("letters").asBoolean() ? Optional.of("letters") : Optional.empty();
        }
    }

    private static final class Queue implements ShareGroupDLQManager {
        @Override
        public CompletableFuture<Void> enqueue(ShareGroupDLQRecordParameter records) {
            LETTERS.add(new Letters(records, new CompletableFuture<>()));
            return LETTERS.get(LETTERS.size() - 1).end;
        }

        @Override
        public void stop() { }
    }

    /** The stored state: read at once, written when standard input says so. */
    private static final class Stored implements Persister {
        @Override
        public CompletableFuture<ReadShareGroupStateResult> readState(ReadShareGroupStateParameters request) {
            List<PersisterStateBatch> spans = new ArrayList<>();
            stored.get("spans").forEach(span -> spans.add(new PersisterStateBatch(span.get(0).asLong(), span.get(1).asLong(),
                (byte) span.get(2).asInt(), (short) span.get(3).asInt())));
            return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(
                PARTITION.topicId(), List.of(PartitionFactory.newPartitionAllData(0, 0, stored.get("start").asLong(), Errors.NONE.code(),
                    "", spans))))).build());
        }

        @Override
        public CompletableFuture<WriteShareGroupStateResult> writeState(WriteShareGroupStateParameters request) {
            PartitionStateBatchData data = request.groupTopicPartitionData().topicsData().get(0).partitions().get(0);
            fresh.add(new Write(data, new CompletableFuture<>()));
            return fresh.get(fresh.size() - 1).end;
        }

        @Override
        public CompletableFuture<InitializeShareGroupStateResult> initializeState(InitializeShareGroupStateParameters request) {
            throw new UnsupportedOperationException("initializeState");
        }

        @Override
        public CompletableFuture<DeleteShareGroupStateResult> deleteState(DeleteShareGroupStateParameters request) {
            throw new UnsupportedOperationException("deleteState");
        }

        @Override
        public CompletableFuture<ReadShareGroupStateSummaryResult> readSummary(ReadShareGroupStateSummaryParameters request) {
            throw new UnsupportedOperationException("readSummary");
        }

        @Override
        public void stop() { }
    }
}
