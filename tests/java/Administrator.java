import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/** Asks by Kafka's {@link Admin} what no command-line tool asks, and prints what it is told. */
final class Administrator {
    private final Admin admin;

    private Administrator(Admin admin) {
        this.admin = admin;
    }

    static void ask(String bootstrap, String subject) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            Administrator asker = new Administrator(admin);
            switch (subject) {
                case "topics" -> asker.topics();
                case "configs" -> asker.configs();
                case "offsets" -> asker.offsets();
                case "groups" -> asker.groups();
                case "members" -> asker.members("old-crew");
                case "modern-members" -> asker.members("new-crew");
                case "dynamic-members" -> asker.members("newer-crew");
                case "transactions" -> asker.transactions();
                case "cluster" -> asker.cluster();
                default -> throw new IllegalArgumentException(subject);
            }
        }
    }

    private void topics() throws Exception {
        NewTopic plain = new NewTopic("plain", 3, (short) 1).configs(Map.of("retention.ms", "-1"));
        CreateTopicsOptions dry = new CreateTopicsOptions().validateOnly(true);
        CreateTopicsResult tried = admin.createTopics(List.of(plain), dry);
        say("try to create", tried.all());
        say("partitions it would have", tried.numPartitions("plain"));
        say("topics", admin.listTopics().names());
        CreateTopicsResult created = admin.createTopics(List.of(plain,
            new NewTopic("defaults", Optional.empty(), Optional.empty()),
            new NewTopic("placed", Map.of(0, List.of(1), 1, List.of(1))),
            new NewTopic("gap", Map.of(0, List.of(1), 2, List.of(1))),
            new NewTopic("none", Map.of(0, List.of()))));
        created.values().entrySet().stream().sorted(Map.Entry.comparingByKey())
            .forEach(entry -> say("create " + entry.getKey(), entry.getValue()));
        say("replicas of defaults", created.replicationFactor("defaults"));
        say("settings of plain", map(created.config("plain"), config -> config.entries().stream()
            .filter(entry -> !entry.isDefault()).map(ConfigEntry::toString).sorted().toList()));
        DescribeTopicsOptions allowed = new DescribeTopicsOptions().includeAuthorizedOperations(true);
        say("operations", map(admin.describeTopics(List.of("plain"), allowed).allTopicNames(),
            all -> new TreeSet<>(all.get("plain").authorizedOperations())));
        CreatePartitionsOptions dryGrowth = new CreatePartitionsOptions().validateOnly(true);
        say("try to grow", admin.createPartitions(Map.of("plain", NewPartitions.increaseTo(9)), dryGrowth).all());
        say("grow by two places for one",
            admin.createPartitions(Map.of("plain", NewPartitions.increaseTo(4, List.of(List.of(1), List.of(1))))).all());
        say("grow", admin.createPartitions(Map.of("plain", NewPartitions.increaseTo(4))).all());
        say("reassign to nowhere", admin.alterPartitionReassignments(Map.of(new TopicPartition("plain", 0),
            Optional.of(new NewPartitionReassignment(List.of(7))))).all());
        say("cancel no reassignment",
            admin.alterPartitionReassignments(Map.of(new TopicPartition("plain", 0), Optional.empty())).all());
        say("delete absent", admin.deleteTopics(List.of("absent")).all());
        say("delete by id", admin.deleteTopics(TopicCollection.ofTopicIds(
            List.of(admin.describeTopics(List.of("placed")).allTopicNames().get().get("placed").topicId()))).all());
        say("delete an unknown id", admin.deleteTopics(TopicCollection.ofTopicIds(
            List.of(new org.apache.kafka.common.Uuid(1, 2)))).all());
        say("delete an internal topic", admin.deleteTopics(List.of("__consumer_offsets")).all());
    }

    private void configs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "plain");
        alter(topic, TopicConfig.CLEANUP_POLICY_CONFIG, "compact", OpType.APPEND, false);
        alter(topic, TopicConfig.CLEANUP_POLICY_CONFIG, "delete", OpType.SUBTRACT, false);
        alter(topic, TopicConfig.CLEANUP_POLICY_CONFIG, "delete", OpType.APPEND, false);
        alter(topic, TopicConfig.CLEANUP_POLICY_CONFIG, "compact", OpType.SUBTRACT, false);
        alter(topic, TopicConfig.RETENTION_MS_CONFIG, "5", OpType.APPEND, false);
        alter(topic, TopicConfig.RETENTION_MS_CONFIG, "77", OpType.SET, true);
        alter(topic, TopicConfig.RETENTION_MS_CONFIG, "no", OpType.SET, true);
        alter(topic, TopicConfig.RETENTION_MS_CONFIG, null, OpType.SET, false);
        alter(topic, "no.such.key", "", OpType.DELETE, false);
        alter(topic, "no.such.key", "1", OpType.SUBTRACT, false);
        alter(new ConfigResource(ConfigResource.Type.TOPIC, ""), "retention.ms", "1", OpType.SET, false);
        AlterConfigOp once = new AlterConfigOp(new ConfigEntry("retention.ms", "1"), OpType.SET);
        AlterConfigOp again = new AlterConfigOp(new ConfigEntry("retention.ms", "2"), OpType.SET);
        say("the same key twice", admin.incrementalAlterConfigs(Map.of(topic, List.of(once, again))).all());
        DescribeConfigsOptions documented = new DescribeConfigsOptions().includeDocumentation(true);
        say("types", map(admin.describeConfigs(List.of(topic), documented).all(), all -> {
            List<String> types = new ArrayList<>();
            for (ConfigEntry entry : all.get(topic).entries()) {
                types.add(entry.name() + " " + entry.type() + " " + entry.source() + " " + entry.isReadOnly());
            }
            types.sort(null);
            return String.join("\n  ", types);
        }));
        say("configs of absent",
            admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.TOPIC, "absent"))).all());
        say("configs of a bad name",
            admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.TOPIC, "a b"))).all());
        ClientQuotaEntity alice = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, "alice"));
        for (double rate : new double[] {10, 0, -1}) {
            say("limit " + rate, admin.alterClientQuotas(List.of(new ClientQuotaAlteration(alice,
                List.of(new ClientQuotaAlteration.Op("producer_byte_rate", rate))))).all());
        }
        say("limits", admin.describeClientQuotas(ClientQuotaFilter.all()).entities());
        say("credentials", admin.describeUserScramCredentials(List.of("alice")).description("alice"));
        say("users", admin.describeUserScramCredentials().users());
    }

    private void alter(ConfigResource resource, String key, String value, OpType type, boolean dry) throws Exception {
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(key, value), type);
        say(type + " " + key + " " + value + (dry ? ", tried" : ""), admin.incrementalAlterConfigs(
            Map.of(resource, List.of(change)), new AlterConfigsOptions().validateOnly(dry)).all());
    }

    private void offsets() throws Exception {
        TopicPartitionReplica replica = new TopicPartitionReplica("plain", 0, 1);
        say("lag of a replica", map(admin.describeReplicaLogDirs(List.of(replica)).all(),
            all -> all.values().iterator().next().getCurrentReplicaOffsetLag()));
        TopicPartition full = new TopicPartition("plain", 0);
        TopicPartition empty = new TopicPartition("plain", 1);
        List<OffsetSpec> specs = List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(),
            OffsetSpec.earliestLocal(), OffsetSpec.latestTiered(), OffsetSpec.forTimestamp(1_600_000_000_007L));
        for (OffsetSpec spec : specs) {
            for (IsolationLevel level : IsolationLevel.values()) {
                ListOffsetsOptions options = new ListOffsetsOptions(level);
                String name = spec.getClass().getSimpleName() + " " + level;
                say(name, admin.listOffsets(Map.of(full, spec), options).partitionResult(full));
                say(name + " of nothing", admin.listOffsets(Map.of(empty, spec), options).partitionResult(empty));
            }
        }
        say("cut", map(admin.deleteRecords(Map.of(full, RecordsToDelete.beforeOffset(5))).lowWatermarks().get(full),
            DeletedRecords::lowWatermark));
        say("cut backwards", map(
            admin.deleteRecords(Map.of(full, RecordsToDelete.beforeOffset(2))).lowWatermarks().get(full),
            DeletedRecords::lowWatermark));
        say("cut below zero", map(
            admin.deleteRecords(Map.of(full, RecordsToDelete.beforeOffset(-7))).lowWatermarks().get(full),
            DeletedRecords::lowWatermark));
    }

    private void groups() throws Exception {
        TopicPartition partition = new TopicPartition("plain", 0);
        say("offsets of nobody", admin.listConsumerGroupOffsets("nobody").partitionsToOffsetAndMetadata());
        say("commit", admin.alterConsumerGroupOffsets("crew",
            Map.of(partition, new OffsetAndMetadata(3, Optional.of(0), "note"))).all());
        say("commit to absent", admin.alterConsumerGroupOffsets("crew",
            Map.of(new TopicPartition("absent", 0), new OffsetAndMetadata(3))).all());
        say("commit a long note", admin.alterConsumerGroupOffsets("crew",
            Map.of(partition, new OffsetAndMetadata(3, "x".repeat(5000)))).all());
        say("offsets", admin.listConsumerGroupOffsets("crew").partitionsToOffsetAndMetadata());
        say("offsets asked for", admin.listConsumerGroupOffsets(Map.of("crew", new ListConsumerGroupOffsetsSpec()
            .topicPartitions(List.of(partition, new TopicPartition("plain", 1))))).partitionsToOffsetAndMetadata());
        say("consumer group", map(admin.describeConsumerGroups(List.of("crew")).all(), Map::toString));
        say("absent group", map(admin.describeConsumerGroups(List.of("absent")).all(), Map::toString));
        say("classic group", map(admin.describeClassicGroups(List.of("crew")).all(), Map::toString));
        say("groups", map(admin.listGroups().all(), all -> all.stream().map(Object::toString).sorted().toList()));
        say("forget", admin.deleteConsumerGroupOffsets("crew", Set.of(partition)).all());
        say("forget absent", admin.deleteConsumerGroupOffsets("crew", Set.of(new TopicPartition("absent", 0))).all());
        say("delete", admin.deleteConsumerGroups(List.of("crew")).all());
        say("delete again", admin.deleteConsumerGroups(List.of("crew")).all());
    }

    private void members(String group) throws Exception {
        TopicPartition partition = new TopicPartition("plain", 0);
        say("commit for them", admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(3))).all());
        say("forget", admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all());
        say("delete", admin.deleteConsumerGroups(List.of(group)).all());
        DescribeConsumerGroupsOptions allowed = new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true);
        say("operations", map(admin.describeConsumerGroups(List.of(group), allowed).all(),
            all -> new TreeSet<>(all.get(group).authorizedOperations())));
        say("members", map(admin.describeConsumerGroups(List.of(group)).all(), all -> all.get(group).members().stream()
            .map(Administrator::shown).sorted().toList()));
        say("as a classic group", map(admin.describeClassicGroups(List.of(group)).all(), all -> all.get(group).state()));
        say("remove nobody", admin.removeMembersFromConsumerGroup(group,
            new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("nobody")))).all());
        say("remove one", admin.removeMembersFromConsumerGroup(group,
            new RemoveMembersFromConsumerGroupOptions(Set.of(new MemberToRemove("seat")))).all());
        say("remove what is left", admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all());
        say("state", map(admin.describeConsumerGroups(List.of(group)).all(), all -> all.get(group).groupState()));
    }

    private static String shown(MemberDescription member) {
        TreeSet<String> partitions = new TreeSet<>();
        member.assignment().topicPartitions().forEach(partition -> partitions.add(partition.toString()));
        return String.join(" ", member.groupInstanceId().orElse("-"), member.rackId().orElse("-"), member.clientId(),
            member.host(), member.memberEpoch().toString(), member.upgraded().toString(), partitions.toString());
    }

    private void transactions() throws Exception {
        TopicPartition partition = new TopicPartition("plain", 0);
        say("fence", admin.fenceProducers(List.of("old")).all());
        say("epoch", admin.fenceProducers(List.of("old")).epochId("old"));
        say("abort nothing", admin.abortTransaction(new AbortTransactionSpec(partition, 99, (short) 0, 0)).all());
        say("transactions", admin.listTransactions(new ListTransactionsOptions()
            .filterStates(List.of(TransactionState.EMPTY, TransactionState.ONGOING))).all());
        say("of producers", admin.listTransactions(new ListTransactionsOptions().filterProducerIds(List.of(4L))).all());
    }

    private void cluster() throws Exception {
        DescribeClusterOptions allowed = new DescribeClusterOptions().includeAuthorizedOperations(true);
        say("operations", map(admin.describeCluster(allowed).authorizedOperations(), TreeSet::new));
        say("controller", map(admin.describeCluster().controller(), node -> node.id() + " " + node.rack()));
        say("directories", map(admin.describeLogDirs(List.of(1)).allDescriptions(), all -> {
            LogDirDescription directory = all.get(1).values().iterator().next();
            return directory.error() + " " + (directory.totalBytes().getAsLong() > directory.usableBytes().getAsLong());
        }));
        say("resources", map(admin.listConfigResources(Set.of(), new ListConfigResourcesOptions()).all(),
            all -> all.stream().map(Object::toString).sorted().toList()));
        say("elect for nothing", admin.electLeaders(org.apache.kafka.common.ElectionType.PREFERRED,
            Set.of(new TopicPartition("absent", 0))).partitions());
    }

    private static <A, B> KafkaFuture<B> map(KafkaFuture<A> future, KafkaFuture.BaseFunction<A, B> change) {
        return future.thenApply(change);
    }

    private static void say(String what, KafkaFuture<?> answer) {
        String shown;
        try {
            Object value = answer.get(30, TimeUnit.SECONDS);
            if (value instanceof Map<?, ?> map) {
                TreeMap<String, String> sorted = new TreeMap<>();
                map.forEach((key, one) -> sorted.put(String.valueOf(key), String.valueOf(one)));
                value = sorted;
            } else if (value instanceof Collection<?> all) {
                value = all.stream().map(String::valueOf).sorted().toList();
            }
            shown = String.valueOf(value);
        } catch (ExecutionException failed) {
            shown = String.valueOf(failed.getCause());
        } catch (Exception failed) {
            shown = failed.toString();
        }
        System.out.println(what + ": " + shown);
    }
}
