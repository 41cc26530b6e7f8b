import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.Group;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.classic.ClassicGroup;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupMemberMetadataKey;

/**
 * Lets classic groups go through their members in the order in which they joined. Kafka takes them, and so the next
 * leader, in the order of a hash map; our core has no other order for classic groups than that of joining, but knows
 * that of a hash map for groups that become consumer groups.
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

    /** Does what may make a consumer group of a classic one, which then goes through its members as Kafka has them. */
    <T> T asInKafka(Supplier<T> request) {
        var orders = new HashMap<ClassicGroup, Map<String, Object>>();
        try {
            for (Group group : groups.values()) {
                if (group instanceof ClassicGroup classic) {
                    orders.put(classic, membersOf(classic));
                    var hashed = new HashMap<String, Object>();
                    membersOf(classic).forEach(hashed::put);  // A copy would have fewer buckets.
                    members.set(classic, hashed);
                }
            }
            return request.get();
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        } finally {
            orders.forEach(this::put);
        }
    }

    @SuppressWarnings("unchecked")
    private Map<String, Object> membersOf(ClassicGroup group) throws IllegalAccessException {
        return (Map<String, Object>) members.get(group);
    }

    private void put(ClassicGroup group, Map<String, Object> order) {
        try {
            members.set(group, order);
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /** Groups that are new get another map. These records were just written, and perhaps made a classic group. */
    void set(List<CoordinatorRecord> records) {
        for (Group group : groups.values()) {
            if (group instanceof ClassicGroup classic) {
                set(classic, records);
            }
        }
    }

    private void set(ClassicGroup group, List<CoordinatorRecord> records) {
        try {
            var unordered = membersOf(group);
            if (unordered instanceof LinkedHashMap) {
                return;
            }
            // A downgrade writes tombstones of the consumer group's members, in the order that the classic group takes,
            // but that of a member whose join brings it about: that one was written before, and comes last.
            var ordered = new LinkedHashMap<String, Object>();
            var joined = new LinkedHashMap<String, Object>();
            for (CoordinatorRecord record : records) {
                if (record.key() instanceof ConsumerGroupMemberMetadataKey key && key.groupId().equals(group.groupId())
                    && unordered.containsKey(key.memberId())) {
                    var order = record.value() != null || joined.containsKey(key.memberId()) ? joined : ordered;
                    order.put(key.memberId(), unordered.get(key.memberId()));
                }
            }
            joined.forEach(ordered::putIfAbsent);
            unordered.forEach(ordered::putIfAbsent);
            members.set(group, ordered);
        } catch (IllegalAccessException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
