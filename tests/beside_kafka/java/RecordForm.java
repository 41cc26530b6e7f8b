import java.util.ArrayList;
import java.util.Base64;
import java.util.Comparator;
import java.util.List;
import java.util.TreeMap;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupCurrentMemberAssignmentValue;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** The form of a record in a history: what Kafka keeps in hash maps is sorted. */
final class RecordForm {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    private RecordForm() { }

    static ObjectNode of(CoordinatorRecord record, long nowMs) {
        ObjectNode form = JSON.createObjectNode();
        form.put("at_ms", nowMs);
        form.put("type", record.key().getClass().getSimpleName().replaceAll("Key$", ""));
        form.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
        form.put("key_b64", Base64.getEncoder().encodeToString(SERDE.serializeKey(record)));
        if (record.value() == null) {
            form.putNull("value");
            form.putNull("value_b64");
            return form;
        }
        short version = record.value().version();
        ApiMessage value = sorted((ApiMessage) record.value().message().duplicate());
        CoordinatorRecord sorted = CoordinatorRecord.record(record.key(), new ApiMessageAndVersion(value, version));
        form.set("value", CoordinatorRecordJsonConverters.writeRecordValueAsJson(value, version));
        form.put("value_b64", Base64.getEncoder().encodeToString(SERDE.serializeValue(sorted)));
        return form;
    }

    private static ApiMessage sorted(ApiMessage value) {
        if (value instanceof ConsumerGroupTargetAssignmentMemberValue target) {
            target.setTopicPartitions(sorted(target.topicPartitions(), Comparator.comparing(topic -> topic.topicId())));
            target.topicPartitions().forEach(
                topic -> topic.setPartitions(sorted(topic.partitions(), Comparator.naturalOrder())));
        } else if (value instanceof ConsumerGroupCurrentMemberAssignmentValue current) {
            current.setAssignedPartitions(sortedTopics(current.assignedPartitions()));
            current.setPartitionsPendingRevocation(sortedTopics(current.partitionsPendingRevocation()));
        } else if (value instanceof GroupMetadataValue group) {
            group.setMembers(sorted(group.members(), Comparator.comparing(member -> member.memberId())));
        }
        return value;
    }

    private static List<ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions> sortedTopics(
        List<ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions> topics
    ) {
        for (var topic : topics) {
            var epochs = new TreeMap<Integer, Integer>();
            for (int index = 0; index < topic.partitions().size(); index++) {
                epochs.put(topic.partitions().get(index), topic.assignmentEpochs().get(index));
            }
            topic.setPartitions(new ArrayList<>(epochs.keySet()));
            topic.setAssignmentEpochs(new ArrayList<>(epochs.values()));
        }
        return sorted(topics, Comparator.comparing(topic -> topic.topicId()));
    }

    static <T> List<T> sorted(List<T> items, Comparator<T> order) {
        var copy = new ArrayList<>(items);
        copy.sort(order);
        return copy;
    }
}
