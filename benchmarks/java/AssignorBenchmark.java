import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.zip.CRC32;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * The groups of benchmarks/assignors.py, member for member, on the assignors of Kafka's Java client.
 *
 * Arguments: assignor, kind (`same` or `mixed`), runs, seconds of CPU time after which it gives up, then the sizes as
 * `members x partitions`. Prints one line for each size: milliseconds of CPU time of the first assignment and of the one
 * after a change (the best run), and a checksum of each. For what it gives up, and for the larger sizes, there is none.
 */
public final class AssignorBenchmark {
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final double WARM_UP_MS = 2_000;
    private static final double SLOW_MS = 1_000;
    private static final int PARTITIONS_PER_TOPIC = 100;
    private static final int GENERATION_ID = 7;

    private final String name;
    private final int runs;
    private double bestMs;

    private AssignorBenchmark(String name, int runs) {
        this.name = name;
        this.runs = runs;
    }

    public static void main(String[] arguments) {
        boolean mixed = arguments[1].equals("mixed");
        int runs = Integer.parseInt(arguments[2]);
        giveUpAfter(Double.parseDouble(arguments[3]) * 1e9, Thread.currentThread().getId());
        for (double begin = now(); now() - begin < WARM_UP_MS;) {
            new AssignorBenchmark(arguments[0], 1).measure(20, 500, mixed);
        }
        for (int i = 4; i < arguments.length; i++) {
            String[] size = arguments[i].split("x");
            AssignorBenchmark benchmark = new AssignorBenchmark(arguments[0], runs);
            System.out.println(benchmark.measure(Integer.parseInt(size[0]), Integer.parseInt(size[1]), mixed));
        }
    }

    /** No thread can be told to stop amid an assignment, so the whole process ends. */
    private static void giveUpAfter(double nanoseconds, long thread) {
        Thread watch = new Thread(() -> {
            while (THREADS.getThreadCpuTime(thread) < nanoseconds) {
                try {
                    Thread.sleep(100);
                } catch (InterruptedException impossible) {
                    throw new IllegalStateException(impossible);
                }
            }
            System.out.flush();
            Runtime.getRuntime().halt(0);
        });
        watch.setDaemon(true);
        watch.start();
    }

    /** Milliseconds of CPU time of this thread. */
    private static double now() {
        return THREADS.getCurrentThreadCpuTime() / 1e6;
    }

    private String measure(int members, int partitions, boolean mixed) {
        List<String> topics = new ArrayList<>();
        for (int number = 0; number < partitions / PARTITIONS_PER_TOPIC; number++) {
            topics.add("topic-%05d".formatted(number));
        }
        Cluster cluster = cluster(topics);
        Map<String, Subscription> group = new HashMap<>();
        for (int number = 0; number < members; number++) {
            group.put(memberId(number), new Subscription(subscribed(number, topics, mixed)));
        }
        Map<String, Assignment> first = best(cluster, group);
        double firstMs = bestMs;
        Map<String, Subscription> changed = new HashMap<>();
        for (int number = 1; number < members; number++) {
            changed.put(memberId(number), rejoining(subscribed(number, topics, mixed), first.get(memberId(number))));
        }
        changed.put(memberId(members), new Subscription(subscribed(members, topics, mixed)));
        Map<String, Assignment> second = best(cluster, changed);
        return "%.3f %.3f %d %d".formatted(firstMs, bestMs, checksum(first), checksum(second));
    }

    private Map<String, Assignment> best(Cluster cluster, Map<String, Subscription> members) {
        Map<String, Assignment> result = null;
        bestMs = Double.MAX_VALUE;
        for (int run = 0; run == 0 || (run < runs && bestMs < SLOW_MS); run++) {
            ConsumerPartitionAssignor assignor = assignor();
            GroupSubscription group = new GroupSubscription(unread(members));
            double begin = now();
            result = assignor.assign(cluster, group).groupAssignment();
            bestMs = Math.min(bestMs, now() - begin);
        }
        return result;
    }

    /** The same subscriptions: an assignor reads their user data to the end, once. */
    private static Map<String, Subscription> unread(Map<String, Subscription> members) {
        Map<String, Subscription> copies = new HashMap<>();
        members.forEach((name, member) -> copies.put(name, new Subscription(
            member.topics(), member.userData() == null ? null : member.userData().duplicate(), member.ownedPartitions(),
            member.generationId().orElse(-1), member.rackId())));
        return copies;
    }

    /** What a member says that has this assignment. */
    private Subscription rejoining(List<String> topics, Assignment owned) {
        ConsumerPartitionAssignor assignor = assignor();
        assignor.onAssignment(owned, new ConsumerGroupMetadata("group", GENERATION_ID, "member", Optional.empty()));
        ByteBuffer userData = assignor.subscriptionUserData(new TreeSet<>(topics));
        return new Subscription(topics, userData, owned.partitions(), GENERATION_ID, Optional.empty());
    }

    private ConsumerPartitionAssignor assignor() {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    private static String memberId(int number) {
        String name = "consumer-%05d".formatted(number);
        return name + "-" + UUID.nameUUIDFromBytes(name.getBytes(StandardCharsets.UTF_8));
    }

    private static List<String> subscribed(int member, List<String> topics, boolean mixed) {
        if (!mixed) {
            return topics;
        }
        int start = (int) (member * 7919L % topics.size());
        TreeSet<String> half = new TreeSet<>();
        for (int place = 0; place < topics.size() / 2; place++) {
            half.add(topics.get((start + place) % topics.size()));
        }
        return new ArrayList<>(half);
    }

    private static Cluster cluster(List<String> topics) {
        Node node = new Node(0, "localhost", 9092);
        Node[] nodes = {node};
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : topics) {
            for (int number = 0; number < PARTITIONS_PER_TOPIC; number++) {
                partitions.add(new PartitionInfo(topic, number, node, nodes, nodes));
            }
        }
        return new Cluster("cluster", List.of(node), partitions, Set.of(), Set.of());
    }

    private static long checksum(Map<String, Assignment> assignments) {
        CRC32 checksum = new CRC32();
        for (Map.Entry<String, Assignment> entry : new TreeMap<>(assignments).entrySet()) {
            StringBuilder line = new StringBuilder(entry.getKey());
            for (TopicPartition partition : entry.getValue().partitions()) {
                line.append(' ').append(partition.topic()).append('-').append(partition.partition());
            }
            checksum.update(line.append('\n').toString().getBytes(StandardCharsets.UTF_8));
        }
        return checksum.getValue();
    }
}
