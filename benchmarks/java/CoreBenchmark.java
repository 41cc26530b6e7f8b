import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import java.util.stream.Stream;

import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.HeartbeatResponseData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetCommitResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.RequestContext;

/**
 * The workloads of benchmarks/core.py, event for event, on Kafka's own coordinator classes.
 *
 * Arguments: seconds to warm up, seconds to measure, workloads (`heartbeat 10 50000`, `join 1000`, `commit 1 10000`,
 * `mixed 20 100`), one an argument. Prints one line for each: events per second of CPU time (the best run), and, of one
 * run, events, the records written and their bytes, for comparison with what the other side wrote.
 */
public final class CoreBenchmark {
    private static final RequestContext JOIN = KafkaShard.context(ApiKeys.JOIN_GROUP, 9);
    private static final RequestContext SYNC = KafkaShard.context(ApiKeys.SYNC_GROUP, 5);
    private static final RequestContext HEARTBEAT = KafkaShard.context(ApiKeys.HEARTBEAT, 4);
    private static final RequestContext COMMIT = KafkaShard.context(ApiKeys.OFFSET_COMMIT, 9);
    private static final byte[] ASSIGNMENT = assignment();
    private static final byte[] METADATA = metadata();
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final List<String> GROUPS = IntStream.range(0, 300).mapToObj("group-%03d"::formatted).toList();
    private static final int INITIAL_DELAY_MS = 3_000;

    /** Some events, and how long they took. */
    private interface Work {
        long nanoseconds();
    }

    private final KafkaShard kafka = new KafkaShard(Map.of(
        "group.initial.rebalance.delay.ms", INITIAL_DELAY_MS, "offset.metadata.max.bytes", 4096));
    private int events = 0;

    public static void main(String[] arguments) {
        double warmUp = Double.parseDouble(arguments[0]);
        double measure = Double.parseDouble(arguments[1]);
        for (int i = 2; i < arguments.length; i++) {
            new CoreBenchmark().run(arguments[i].split(" "), warmUp, measure);
        }
        System.exit(0);  // the timing wheel has a thread that does nothing
    }

    private void run(String[] workload, double warmUp, double measure) {
        int size = Integer.parseInt(workload[1]);
        Work work = switch (workload[0]) {
            case "heartbeat" -> heartbeats(size, Integer.parseInt(workload[2]));
            case "join" -> () -> joins(size);
            case "commit" -> commits(size, Integer.parseInt(workload[2]));
            case "mixed" -> mixed(size, Integer.parseInt(workload[2]));
            default -> throw new IllegalArgumentException(workload[0]);
        };
        repeat(work, warmUp);
        double best = repeat(work, measure);
        kafka.records = kafka.recordBytes = 0;
        events = 0;
        work.nanoseconds();
        System.out.printf("%s %.1f %d %d %d%n", String.join(" ", workload), best, events, kafka.records, kafka.recordBytes);
    }

    /** Events per second of the best run; a run is repeated work of at least 20 milliseconds. */
    private double repeat(Work work, double seconds) {
        double best = 0;
        for (long begin = now(); now() - begin < seconds * 1e9;) {
            long taken = 0;
            events = 0;
            while (taken < 20_000_000) {
                taken += work.nanoseconds();
            }
            best = Math.max(best, events * 1e9 / taken);
        }
        return best;
    }

    /** CPU time of this thread: others use the machine, too. Compiler and garbage collector have their own threads. */
    private static long now() {
        return THREADS.getCurrentThreadCpuTime();
    }

    // ------------------------------------------------------------------------------------------------- workloads

    private Work heartbeats(int members, int beats) {
        List<String> ids = joined(GROUPS.get(0), members);
        List<HeartbeatRequestData> requests = new ArrayList<>();
        for (int n = 0; n < beats; n++) {
            requests.add(new HeartbeatRequestData().setGroupId(GROUPS.get(0)).setGenerationId(1).setMemberId(ids.get(n % members)));
        }
        return () -> {
            long begin = now();
            for (HeartbeatRequestData request : requests) {
                beat(request);
            }
            long taken = now() - begin;
            events += beats;
            return taken;
        };
    }

    /** One or more groups come into being. What their leaving takes is not counted. */
    private long joins(int members) {
        List<String> groups = GROUPS.subList(0, Math.max(1, 300 / members));
        List<List<String>> ids = new ArrayList<>();
        long taken = joinAll(groups, members, ids);
        events += 3 * members * groups.size();
        for (int number = 0; number < groups.size(); number++) {
            leave(groups.get(number), ids.get(number));
        }
        return taken;
    }

    private Work commits(int partitions, int count) {
        String member = joined(GROUPS.get(0), 1).get(0);
        OffsetCommitRequestData request = commit(member, partitions);
        return () -> {
            long begin = now();
            for (int n = 0; n < count; n++) {
                commit(request);
            }
            long taken = now() - begin;
            events += count;
            return taken;
        };
    }

    /** Each round nine heartbeats and a commit of ten partitions of every member, then a rebalance. */
    private Work mixed(int members, int rounds) {
        List<String> ids = joined(GROUPS.get(0), members);
        List<HeartbeatRequestData> beats = new ArrayList<>();
        List<OffsetCommitRequestData> commits = new ArrayList<>();
        List<JoinGroupRequestData> joins = new ArrayList<>();
        for (String id : ids) {
            beats.add(new HeartbeatRequestData().setGroupId(GROUPS.get(0)).setMemberId(id));
            commits.add(commit(id, 10));
            joins.add(join(GROUPS.get(0), id));
        }
        int[] generation = {1};
        return () -> {
            long taken = 0;
            for (int round = 0; round < rounds; round++) {
                long begin = now();
                for (int n = 0; n < 9; n++) {
                    for (HeartbeatRequestData request : beats) {
                        beat(request.setGenerationId(generation[0]));
                    }
                }
                for (OffsetCommitRequestData request : commits) {
                    commit(request.setGenerationIdOrMemberEpoch(generation[0]));
                }
                List<CompletableFuture<JoinGroupResponseData>> answers = joins.stream().map(this::join).toList();
                taken += now() - begin;
                taken += sync(List.of(GROUPS.get(0)), List.of(ids), List.of(answers));
                generation[0]++;
            }
            events += rounds * members * 12;
            return taken;
        };
    }

    // -------------------------------------------------------------------------------------------------- requests

    private List<String> joined(String group, int members) {
        List<List<String>> ids = new ArrayList<>();
        joinAll(List.of(group), members, ids);
        return ids.get(0);
    }

    /**
     * Everybody asks for an id, joins with it, and syncs: all groups side by side, so that the requests, which hold what was answered
     * before, are made between the timed stretches. Adds the ids of each group's members; returns nanoseconds.
     */
    private long joinAll(List<String> groups, int members, List<List<String>> ids) {
        List<List<JoinGroupRequestData>> firsts = new ArrayList<>();
        for (String group : groups) {
            firsts.add(Stream.generate(() -> join(group, "")).limit(members).toList());
        }
        List<List<CompletableFuture<JoinGroupResponseData>>> answers = new ArrayList<>();
        long taken = sendJoins(firsts, answers);
        List<List<JoinGroupRequestData>> seconds = new ArrayList<>();
        for (int number = 0; number < groups.size(); number++) {
            String group = groups.get(number);
            ids.add(answers.get(number).stream().map(answer -> answer.join().memberId()).toList());
            seconds.add(ids.get(number).stream().map(id -> join(group, id)).toList());
        }
        answers.clear();
        taken += sendJoins(seconds, answers);
        long begin = now();
        kafka.advance(3 * INITIAL_DELAY_MS);
        taken += now() - begin;
        return taken + sync(groups, ids, answers);
    }

    private long sendJoins(List<List<JoinGroupRequestData>> requests, List<List<CompletableFuture<JoinGroupResponseData>>> answers) {
        long begin = now();
        for (List<JoinGroupRequestData> ofGroup : requests) {
            List<CompletableFuture<JoinGroupResponseData>> found = new ArrayList<>();
            for (JoinGroupRequestData request : ofGroup) {
                found.add(join(request));
            }
            answers.add(found);
        }
        return now() - begin;
    }

    /** Everybody syncs, the leader, who has joined first, with a plan for all. Returns nanoseconds. */
    private long sync(
        List<String> groups, List<List<String>> ids, List<List<CompletableFuture<JoinGroupResponseData>>> answers
    ) {
        List<SyncGroupRequestData> requests = new ArrayList<>();
        for (int number = 0; number < groups.size(); number++) {
            for (CompletableFuture<JoinGroupResponseData> answer : answers.get(number)) {
                requests.add(sync(groups.get(number), ids.get(number), answer.join()));
            }
        }
        List<CompletableFuture<SyncGroupResponseData>> synced = new ArrayList<>();
        long begin = now();
        for (SyncGroupRequestData request : requests) {
            CompletableFuture<SyncGroupResponseData> future = new CompletableFuture<>();
            kafka.apply(kafka.shard.classicGroupSync(SYNC, request, future));
            synced.add(future);
        }
        long taken = now() - begin;
        for (CompletableFuture<SyncGroupResponseData> future : synced) {
            require(future.join().errorCode());
        }
        return taken;
    }

    private static SyncGroupRequestData sync(String group, List<String> ids, JoinGroupResponseData joined) {
        require(joined.errorCode());
        SyncGroupRequestData request = new SyncGroupRequestData().setGroupId(group).setMemberId(joined.memberId())
            .setGenerationId(joined.generationId()).setProtocolType("consumer").setProtocolName("range");
        if (joined.leader().equals(joined.memberId())) {
            for (String id : ids) {
                request.assignments().add(new SyncGroupRequestData.SyncGroupRequestAssignment()
                    .setMemberId(id).setAssignment(ASSIGNMENT));
            }
        }
        return request;
    }

    private CompletableFuture<JoinGroupResponseData> join(JoinGroupRequestData request) {
        CompletableFuture<JoinGroupResponseData> future = new CompletableFuture<>();
        kafka.apply(KafkaApi.join(kafka.shard, JOIN, request, future));
        return future;
    }

    private void beat(HeartbeatRequestData request) {
        HeartbeatResponseData answer = kafka.apply(kafka.shard.classicGroupHeartbeat(HEARTBEAT, request));
        require(answer.errorCode());
    }

    private void commit(OffsetCommitRequestData request) {
        OffsetCommitResponseData answer = kafka.apply(kafka.shard.commitOffset(COMMIT, request));
        require(answer.topics().get(0).partitions().get(0).errorCode());
    }

    /** Everybody leaves, and the group is deleted: what is not measured. */
    private void leave(String group, List<String> ids) {
        LeaveGroupRequestData request = new LeaveGroupRequestData().setGroupId(group);
        for (String id : ids) {
            request.members().add(new LeaveGroupRequestData.MemberIdentity().setMemberId(id));
        }
        long records = kafka.records;
        long recordBytes = kafka.recordBytes;
        kafka.apply(kafka.shard.classicGroupLeave(KafkaShard.context(ApiKeys.LEAVE_GROUP, 5), request));
        kafka.apply(kafka.shard.deleteGroups(KafkaShard.context(ApiKeys.DELETE_GROUPS, 2), List.of(group)));
        kafka.records = records;
        kafka.recordBytes = recordBytes;
    }

    private static JoinGroupRequestData join(String group, String member) {
        JoinGroupRequestData request = new JoinGroupRequestData().setGroupId(group).setMemberId(member)
            .setSessionTimeoutMs(1_800_000).setRebalanceTimeoutMs(300_000).setProtocolType("consumer");
        for (String protocol : List.of("range", "sticky")) {
            request.protocols().add(new JoinGroupRequestData.JoinGroupRequestProtocol().setName(protocol).setMetadata(METADATA));
        }
        return request;
    }

    private static OffsetCommitRequestData commit(String member, int partitions) {
        var topic = new OffsetCommitRequestData.OffsetCommitRequestTopic().setName("orders");
        for (int number = 0; number < partitions; number++) {
            topic.partitions().add(new OffsetCommitRequestData.OffsetCommitRequestPartition()
                .setPartitionIndex(number).setCommittedOffset(number).setCommittedMetadata(""));
        }
        return new OffsetCommitRequestData().setGroupId(GROUPS.get(0)).setMemberId(member).setGenerationIdOrMemberEpoch(1)
            .setTopics(List.of(topic));
    }

    private static byte[] assignment() {
        return bytes(ConsumerProtocol.serializeAssignment(
            new Assignment(List.of(new TopicPartition("orders", 0), new TopicPartition("orders", 1)))));
    }

    private static byte[] metadata() {
        return bytes(ConsumerProtocol.serializeSubscription(new Subscription(List.of("orders", "payments"))));
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    private static void require(short errorCode) {
        if (errorCode != Errors.NONE.code()) {
            throw new IllegalStateException(Errors.forCode(errorCode).name());
        }
    }
}
