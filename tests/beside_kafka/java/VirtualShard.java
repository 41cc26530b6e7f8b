import java.util.Comparator;
import java.util.HashSet;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;

// LogContext is in the one or, from Kafka 4.4 on, in the other.
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorShardScheduler;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimerImpl;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.TimerTaskEntry;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's coordinator of one partition, as its runtime drives it, in one thread and with a clock that moves when a step
 * says so: timers and the background executor have their turn at their exact milliseconds, and appends succeed at once.
 */
final class VirtualShard implements CoordinatorShardScheduler<CoordinatorRecord> {
    private static final long NO_PRODUCER = -1;

    final GroupCoordinatorShard shard;
    final GroupConfigManager groupConfigs;
    /** Hears of each record, with the producer of its transaction or -1. */
    private final Listener listener;
    private final VirtualClock clock;
    private final long backgroundMs;
    private final SnapshotRegistry snapshots;
    final MemberOrder memberOrder;
    private final PriorityQueue<Due> timers = new PriorityQueue<>(
        Comparator.comparingLong(Due::atMs).thenComparingLong(Due::number));
    private final PriorityQueue<Due> background = new PriorityQueue<>(timers.comparator());
    private long armed = 0;
    private long offset = 0;
    private long producerId = NO_PRODUCER;
    private short producerEpoch = -1;

    interface Listener {
        void wrote(CoordinatorRecord record, long nowMs, long producerId, short producerEpoch);
    }

    VirtualShard(Map<String, Object> settings, long startMs, long backgroundMs, Listener listener) {
        LogContext log = new LogContext();
        this.backgroundMs = backgroundMs;
        this.listener = listener;
        clock = new VirtualClock(startMs);
        snapshots = new SnapshotRegistry(log);
        ShardParts parts = new ShardParts(settings);
        groupConfigs = parts.groupConfigs;
        shard = parts.build(
            clock, new CoordinatorTimerImpl<>(log, new QueueTimer(), this), new Background(), snapshots);
        memberOrder = new MemberOrder(shard);
        snapshots.idempotentCreateSnapshot(0);
    }

    long nowMs() {
        return clock.milliseconds();
    }

    long committedOffset() {
        return offset;
    }

    /** What CoordinatorRuntime does with the result of an operation. */
    <T> T apply(CoordinatorResult<T, CoordinatorRecord> result) {
        long before = offset;
        try {
            for (CoordinatorRecord record : result.records()) {
                if (result.replayRecords()) {
                    shard.replay(offset, producerId, producerEpoch, record);
                }
                offset++;
            }
        } catch (RuntimeException problem) {
            offset = before;
            snapshots.revertToSnapshot(before);
            if (result.appendFuture() != null) {
                result.appendFuture().completeExceptionally(problem);
            }
            throw problem;
        }
        result.records().forEach(record -> listener.wrote(record, nowMs(), producerId, producerEpoch));
        commit();
        memberOrder.set(result.records());
        if (result.appendFuture() != null) {
            result.appendFuture().complete(null);
        }
        return result.response();
    }

    <T> T applyInTransaction(long id, short epoch, CoordinatorResult<T, CoordinatorRecord> result) {
        producerId = id;
        producerEpoch = epoch;
        try {
            return apply(result);
        } finally {
            producerId = NO_PRODUCER;
            producerEpoch = -1;
        }
    }

    void endTransaction(long id, short epoch, TransactionResult result) {
        shard.replayEndTransactionMarker(id, epoch, result);
        offset++;
        commit();
    }

    private void commit() {
        snapshots.idempotentCreateSnapshot(offset);
        snapshots.deleteSnapshotsUpTo(offset);
    }

    @Override
    public CompletableFuture<Void> scheduleWriteOperation(String name, WriteOperation<CoordinatorRecord> operation) {
        try {
            apply(operation.generate());
            return CompletableFuture.completedFuture(null);
        } catch (RuntimeException refused) {
            return CompletableFuture.failedFuture(refused);
        }
    }

    /** Moves the clock. What is due by then has its turn, timers before the background's work of the same time. */
    void advance(long toMs) {
        while (true) {
            while (!timers.isEmpty() && timers.peek().task.isCancelled()) {
                timers.poll();
            }
            Due timer = timers.peek();
            Due work = background.peek();
            boolean isTimer = timer != null && (work == null || timer.atMs <= work.atMs);
            Due next = isTimer ? timer : work;
            if (next == null || next.atMs > toMs) {
                break;
            }
            (isTimer ? timers : background).poll();
            clock.set(Math.max(nowMs(), next.atMs));
            next.run.run();
        }
        clock.set(Math.max(nowMs(), toMs));
    }

    /** Equal times go by number: in the order of arming. The background's work has no task. */
    private record Due(long atMs, long number, Runnable run, TimerTask task) { }

    private final class QueueTimer implements Timer {
        @Override
        public void add(TimerTask task) {
            // Without an entry a task counts as cancelled.
            new TimerTaskEntry(task, nowMs() + task.delayMs);
            timers.add(new Due(nowMs() + Math.max(0, task.delayMs), armed++, task, task));
        }

        @Override
        public boolean advanceClock(long timeoutMs) {
            return false;
        }

        @Override
        public int size() {
            return timers.size();
        }

        @Override
        public void close() { }
    }

    /** The coordinator's background executor: it comes to its work some time after it was asked. */
    private final class Background implements CoordinatorExecutor<CoordinatorRecord> {
        private final Set<String> scheduled = new HashSet<>();

        @Override
        public <R> boolean schedule(String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> operation) {
            if (!scheduled.add(key)) {
                return false;
            }
            background.add(new Due(nowMs() + backgroundMs, armed++, () -> run(key, task, operation), null));
            return true;
        }

        private <R> void run(String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> operation) {
            if (!scheduled.remove(key)) {
                return;
            }
            R result = null;
            Throwable problem = null;
            try {
                result = task.run();
            } catch (Throwable failed) {
                problem = failed;
            }
            apply(operation.onComplete(result, problem));
        }

        @Override
        public boolean isScheduled(String key) {
            return scheduled.contains(key);
        }

        @Override
        public void cancel(String key) {
            scheduled.remove(key);
        }
    }
}
