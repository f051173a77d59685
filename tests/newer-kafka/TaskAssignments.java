import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.TaskAssignorException;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * The task assignments that Kafka's coordinator computes for streams groups. Each line of standard input is a group as JSON,
 * {@code {"standbys": 1, "subtopologies": [["0", PARTITIONS, IS_STATEFUL]...], "members": [{"id", "process", "active": {"0":
 * [PARTITION...]}, "standby": {}, "offsets": {"0": {"PARTITION": OFFSET}}}...]}}, and one line answers it: {@code {MEMBER: {"active": {}, "standby": {}}}}, or a text.
 */
public final class TaskAssignments {
    private static final ObjectMapper JSON = new ObjectMapper();

    private record Subtopology(int partitions, boolean isStateful) {}

    private record Described(TreeMap<String, Subtopology> all) implements TopologyDescriber {
        @Override
        public List<String> subtopologies() {
            return new ArrayList<>(all.keySet());
        }

        @Override
        public int maxNumInputPartitions(String id) {
            return all.get(id).partitions;
        }

        @Override
        public boolean isStateful(String id) {
            return all.get(id).isStateful;
        }
    }

    private TaskAssignments() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(JSON.readTree(line)));
        }
    }

    private static String answer(JsonNode group) throws Exception {
        TreeMap<String, Subtopology> subtopologies = new TreeMap<>();
        group.get("subtopologies").forEach(one ->
            subtopologies.put(one.get(0).asText(), new Subtopology(one.get(1).asInt(), one.get(2).asBoolean())));
        Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
        group.get("members").forEach(one -> members.put(one.get("id").asText(), member(one)));
        Map<String, String> settings = Map.of("num.standby.replicas", group.get("standbys").asText());
        ObjectNode answer = JSON.createObjectNode();
        try {
            var assigned = new StickyTaskAssignor().assign(new GroupSpecImpl(members, AssignmentConfigsImpl.fromMap(settings)), new Described(subtopologies));
            new TreeMap<>(assigned.members()).forEach((id, tasks) -> {
                ObjectNode both = answer.putObject(id);
                both.set("active", sorted(tasks.activeTasks()));
                both.set("standby", sorted(tasks.standbyTasks()));
            });
        } catch (TaskAssignorException failed) {
            return JSON.writeValueAsString(failed.getMessage());
        }
        return JSON.writeValueAsString(answer);
    }

    private static MemberMetadataAndStateImpl member(JsonNode member) {
        return new MemberMetadataAndStateImpl(Optional.empty(), Optional.empty(), member.get("process").asText(), Map.of(),
            tasks(member.get("active")), tasks(member.get("standby")), Map.of(), offsets(member.get("offsets")), Map.of());
    }

    private static Map<String, Map<Integer, Long>> offsets(JsonNode offsets) {
        Map<String, Map<Integer, Long>> found = new HashMap<>();
        offsets.properties().forEach(one -> {
            Map<Integer, Long> partitions = new HashMap<>();
            one.getValue().properties().forEach(task -> partitions.put(Integer.valueOf(task.getKey()), task.getValue().asLong()));
            found.put(one.getKey(), partitions);
        });
        return found;
    }

    private static Map<String, Set<Integer>> tasks(JsonNode tasks) {
        Map<String, Set<Integer>> found = new HashMap<>();
        tasks.properties().forEach(one -> {
            Set<Integer> partitions = new HashSet<>();
            one.getValue().forEach(partition -> partitions.add(partition.asInt()));
            found.put(one.getKey(), partitions);
        });
        return found;
    }

    private static JsonNode sorted(Map<String, Set<Integer>> tasks) {
        TreeMap<String, TreeSet<Integer>> found = new TreeMap<>();
        tasks.forEach((id, partitions) -> found.put(id, new TreeSet<>(partitions)));
        return JSON.valueToTree(found);
    }
}
