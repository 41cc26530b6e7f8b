import java.lang.reflect.Field;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.Group;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMemberMetadataKey;

/**
 * Lets classic groups go through their members in the order in which they joined. Kafka takes them, and so the next
 * leader, in the order of a hash map; our core has no other order for classic groups than that of joining.
 */
final class MemberOrder {
    private final Map<String, Group> groups;
    private final Field members;

    @SuppressWarnings("unchecked")
    MemberOrder(GroupCoordinatorShard shard) {
        try {
            Object manager = open(GroupCoordinatorShard.class, "groupMetadataManager").get(shard);
            groups = (Map<String, Group>) open(manager.getClass(), "groups").get(manager);
            members = open(ClassicGroup.class, "members");
        } catch (ReflectiveOperationException other) {
            throw new IllegalStateException("another version of Kafka", other);
        }
    }

    private static Field open(Class<?> type, String name) throws NoSuchFieldException {
        Field field = type.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }

    /** Groups that are new get another map. These records were just written, and perhaps made a classic group. */
    void set(List<CoordinatorRecord> records) {
        for (Group group : groups.values()) {
            if (group instanceof ClassicGroup classic) {
                set(classic, records);
            }
        }
    }

    @SuppressWarnings("unchecked")
    private void set(ClassicGroup group, List<CoordinatorRecord> records) {
        try {
            var unordered = (Map<String, Object>) members.get(group);
            if (unordered instanceof LinkedHashMap) {
                return;
            }
            // A downgrade writes tombstones of the consumer group's members, in the order that the classic group takes.
            var ordered = new LinkedHashMap<String, Object>();
            for (CoordinatorRecord record : records) {
                if (record.value() == null && record.key() instanceof ConsumerGroupMemberMetadataKey key
                    && key.groupId().equals(group.groupId()) && unordered.containsKey(key.memberId())) {
                    ordered.put(key.memberId(), unordered.get(key.memberId()));
                }
            }
            unordered.forEach(ordered::putIfAbsent);
            members.set(group, ordered);
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
