import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberAssignment;
import org.apache.kafka.common.KafkaFuture;

/**
 * An admin client that describes share and streams groups. For each command, two lists of names, it answers with those
 * groups that are there and whose coordinator answers.
 */
public class Describer {
    public static void main(String[] arguments) throws Exception {
        Driven driven = new Driven(arguments[0]);
        Properties properties = Driven.properties(arguments, 2);
        try (Admin admin = Admin.create(properties)) {
            while (true) {
                JsonNode command = driven.commands.take();
                var shares = admin.describeShareGroups(names(command.get(0))).describedGroups();
                var streams = admin.describeStreamsGroups(names(command.get(1))).describedGroups();
                List<Object> groups = new ArrayList<>();
                for (KafkaFuture<ShareGroupDescription> group : shares.values()) {
                    try {
                        groups.add(shareGroup(group.get()));
                    } catch (ExecutionException notThere) {
                        continue;
                    }
                }
                for (KafkaFuture<StreamsGroupDescription> group : streams.values()) {
                    try {
                        groups.add(streamsGroup(group.get()));
                    } catch (ExecutionException notThere) {
                        continue;
                    }
                }
                driven.write(groups);
            }
        }
    }

    private static List<String> names(JsonNode names) {
        List<String> texts = new ArrayList<>();
        names.forEach(name -> texts.add(name.asText()));
        return texts;
    }

    private static Map<String, Object> shareGroup(ShareGroupDescription group) {
        return facts(
            "group", group.groupId(), "type", "Share", "protocol_type", "share",
            "state", group.groupState().toString(), "coordinator", group.coordinator().id(),
            "group_epoch", group.groupEpoch(), "target_assignment_epoch", group.targetAssignmentEpoch(),
            "members", group.members().stream().map(member -> facts(
                "member_id", member.consumerId(), "client_id", member.clientId(), "host", member.host(),
                "epoch", member.memberEpoch(), "assignment", member.assignment().topicPartitions().stream()
                    .map(Object::toString).sorted().collect(Collectors.toList())))
                .collect(Collectors.toList()));
    }

    private static Map<String, Object> streamsGroup(StreamsGroupDescription group) {
        return facts(
            "group", group.groupId(), "type", "Streams", "protocol_type", "streams",
            "state", group.groupState().toString(), "coordinator", group.coordinator().id(),
            "group_epoch", group.groupEpoch(), "target_assignment_epoch", group.targetAssignmentEpoch(),
            "members", group.members().stream().map(member -> facts(
                "member_id", member.memberId(), "client_id", member.clientId(), "host", member.clientHost(),
                "epoch", member.memberEpoch(), "assignment", tasks(member.assignment()),
                "target", tasks(member.targetAssignment()))).collect(Collectors.toList()));
    }

    private static List<String> tasks(StreamsGroupMemberAssignment assignment) {
        return assignment.activeTasks().stream().flatMap(tasks -> tasks.partitions().stream()
            .map(partition -> "subtopology " + tasks.subtopologyId() + "-" + partition))
            .sorted().collect(Collectors.toList());
    }

    private static Map<String, Object> facts(Object... namesAndValues) {
        Map<String, Object> facts = new LinkedHashMap<>();
        for (int index = 0; index < namesAndValues.length; index += 2) {
            facts.put((String) namesAndValues[index], namesAndValues[index + 1]);
        }
        return facts;
    }
}
