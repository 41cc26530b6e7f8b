import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.zip.CRC32;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * The groups of benchmarks/server_assignors.py, member for member, on the assignors of Kafka's group coordinator.
 *
 * Arguments and output are those of AssignorBenchmark.
 */
public final class ServerAssignorBenchmark {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final double WARM_UP_MS = 4_000;
    private static final double SLOW_MS = 1_000;
    private static final int PARTITIONS_PER_TOPIC = 100;

    private final ConsumerGroupPartitionAssignor assignor;
    private final int runs;
    private double bestMs;

    private ServerAssignorBenchmark(String name, int runs) {
        this.assignor = name.equals("range") ? new RangeAssignor() : new UniformAssignor();
        this.runs = runs;
    }

    public static void main(String[] arguments) {
        boolean mixed = arguments[1].equals("mixed");
        int runs = Integer.parseInt(arguments[2]);
        for (double begin = now(); now() - begin < WARM_UP_MS;) {
            new ServerAssignorBenchmark(arguments[0], 1).measure(100, 2_000, mixed);
        }
        for (int i = 4; i < arguments.length; i++) {
            String[] size = arguments[i].split("x");
            ServerAssignorBenchmark benchmark = new ServerAssignorBenchmark(arguments[0], runs);
            System.out.println(benchmark.measure(Integer.parseInt(size[0]), Integer.parseInt(size[1]), mixed));
            System.out.flush();
        }
    }

    /** Milliseconds of CPU time of this thread. */
    private static double now() {
        return THREADS.getCurrentThreadCpuTime() / 1e6;
    }

    private String measure(int members, int partitions, boolean mixed) {
        List<Uuid> topics = new ArrayList<>();
        for (int number = 0; number < partitions / PARTITIONS_PER_TOPIC; number++) {
            UUID id = nameUuid("topic-%05d".formatted(number));
            topics.add(new Uuid(id.getMostSignificantBits(), id.getLeastSignificantBits()));
        }
        Map<String, Assignment> nothing = new HashMap<>();
        Map<String, MemberAssignment> first = best(group(0, members, topics, mixed, nothing));
        double firstMs = bestMs;
        Map<String, Assignment> targets = new HashMap<>();
        for (int number = 1; number < members; number++) {
            targets.put(memberId(number), recorded(first.get(memberId(number))));
        }
        Map<String, MemberAssignment> second = best(group(1, members + 1, topics, mixed, targets));
        return "%.3f %.3f %d %d".formatted(firstMs, bestMs, checksum(first), checksum(second));
    }

    private Map<String, MemberAssignment> best(GroupSpec group) {
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return PARTITIONS_PER_TOPIC;
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        GroupAssignment result = null;
        bestMs = Double.MAX_VALUE;
        for (int run = 0; run == 0 || (run < runs && bestMs < SLOW_MS); run++) {
            double begin = now();
            result = assignor.assign(group, topics);
            bestMs = Math.min(bestMs, now() - begin);
        }
        return result.members();
    }

    /** Members from one number to another, in this order, with the targets that they have. */
    private static GroupSpec group(int from, int to, List<Uuid> topics, boolean mixed, Map<String, Assignment> targets) {
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Uuid> all = new HashSet<>(topics);
        for (int number = from; number < to; number++) {
            String memberId = memberId(number);
            Assignment target = targets.getOrDefault(memberId, Assignment.EMPTY);
            members.put(memberId, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), mixed ? half(number, topics) : all, target));
            target.partitions().forEach((topic, partitions) -> partitions.forEach(partition ->
                owners.computeIfAbsent(topic, key -> new HashMap<>()).put(partition, memberId)));
        }
        return new GroupSpecImpl(members, mixed ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS, owners);
    }

    /** A target as the coordinator has it when it has replayed its record. */
    private static Assignment recorded(MemberAssignment target) {
        Map<Uuid, Set<Integer>> partitions = new HashMap<>();
        target.partitions().forEach((topic, ofTopic) -> partitions.put(topic, new HashSet<>(List.copyOf(ofTopic))));
        return new Assignment(partitions);
    }

    private static Set<Uuid> half(int member, List<Uuid> topics) {
        int start = (int) (member * 7919L % topics.size());
        Set<Uuid> half = new HashSet<>();
        for (int place = 0; place < topics.size() / 2; place++) {
            half.add(topics.get((start + place) % topics.size()));
        }
        return half;
    }

    private static String memberId(int number) {
        String name = "consumer-%05d".formatted(number);
        return name + "-" + nameUuid(name);
    }

    private static UUID nameUuid(String name) {
        return UUID.nameUUIDFromBytes(name.getBytes(StandardCharsets.UTF_8));
    }

    private static long checksum(Map<String, MemberAssignment> assignments) {
        CRC32 checksum = new CRC32();
        for (Map.Entry<String, MemberAssignment> entry : new TreeMap<>(assignments).entrySet()) {
            Map<String, Set<Integer>> topics = new TreeMap<>();
            entry.getValue().partitions().forEach((topic, partitions) -> topics.put(
                new UUID(topic.getMostSignificantBits(), topic.getLeastSignificantBits()).toString(),
                new TreeSet<>(partitions)));
            StringBuilder line = new StringBuilder(entry.getKey());
            topics.forEach((topic, partitions) -> partitions.forEach(partition ->
                line.append(' ').append(topic).append('-').append(partition)));
            checksum.update(line.append('\n').toString().getBytes(StandardCharsets.UTF_8));
        }
        return checksum.getValue();
    }
}
