import java.util.ArrayDeque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.RequestContext;
// LogContext is in the one or, from Kafka 4.4 on, in the other.
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorShardScheduler;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimerImpl;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.server.util.timer.SystemTimer;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Kafka's coordinator of one partition, as its runtime drives it, in one thread and with a clock of its own: records
 * are replayed and serialized at once, and their append succeeds at once.
 */
final class KafkaShard implements CoordinatorShardScheduler<CoordinatorRecord> {
    private static final long SHORT_DELAY_MS = 10_000;

    final GroupCoordinatorShard shard;
    long records = 0;
    long recordBytes = 0;
    private final VirtualClock clock = new VirtualClock(1_000_000);
    private final SnapshotRegistry snapshots;
    private final GroupCoordinatorRecordSerde serde = new GroupCoordinatorRecordSerde();
    private final ArrayDeque<Due> shortTimers = new ArrayDeque<>();
    private final SystemTimer wheel = new SystemTimer("benchmark");
    private long offset = 0;

    KafkaShard(Map<String, Object> settings) {
        LogContext log = new LogContext();
        snapshots = new SnapshotRegistry(log);
        var timer = new CoordinatorTimerImpl<>(log, new WatchedTimer(), this);
        shard = new ShardParts(settings).build(clock, timer, new NoExecutor(), snapshots);
    }

    static RequestContext context(ApiKeys api, int version) {
        return ShardParts.context(api, version, "client");
    }

    /** What CoordinatorRuntime does with the result of an operation. */
    <T> T apply(CoordinatorResult<T, CoordinatorRecord> result) {
        List<CoordinatorRecord> written = result.records();
        if (!written.isEmpty()) {
            for (CoordinatorRecord record : written) {
                if (result.replayRecords()) {
                    shard.replay(offset, -1L, (short) -1, record);
                }
                byte[] key = serde.serializeKey(record);
                byte[] value = serde.serializeValue(record);
                recordBytes += key.length + (value == null ? 0 : value.length);
                offset++;
            }
            records += written.size();
            snapshots.idempotentCreateSnapshot(offset);
            snapshots.deleteSnapshotsUpTo(offset);
        }
        if (result.appendFuture() != null) {
            result.appendFuture().complete(null);
        }
        return result.response();
    }

    @Override
    public CompletableFuture<Void> scheduleWriteOperation(String name, WriteOperation<CoordinatorRecord> operation) {
        apply(operation.generate());
        return CompletableFuture.completedFuture(null);
    }

    /** Moves the clock; timers of a short delay that are due by then fire, each at its own time. */
    void advance(long milliseconds) {
        long end = clock.milliseconds() + milliseconds;
        while (!shortTimers.isEmpty() && shortTimers.peek().deadlineMs <= end) {
            Due due = shortTimers.poll();
            if (!due.task.isCancelled()) {
                clock.set(Math.max(due.deadlineMs, clock.milliseconds()));
                due.task.run();
            }
        }
        clock.set(end);
    }

    private record Due(long deadlineMs, TimerTask task) { }

    /** Kafka's own timing wheel, whose clock stands still; the few timers that a benchmark waits for are kept apart. */
    private final class WatchedTimer implements Timer {
        @Override
        public void add(TimerTask task) {
            wheel.add(task);
            if (task.delayMs < SHORT_DELAY_MS) {
                shortTimers.add(new Due(clock.milliseconds() + task.delayMs, task));
            }
        }

        @Override
        public boolean advanceClock(long timeoutMs) {
            return false;
        }

        @Override
        public int size() {
            return wheel.size();
        }

        @Override
        public void close() throws Exception {
            wheel.close();
        }
    }

    private static final class NoExecutor implements CoordinatorExecutor<CoordinatorRecord> {
        @Override
        public <R> boolean schedule(String key, TaskRunnable<R> task, TaskOperation<CoordinatorRecord, R> operation) {
            throw new UnsupportedOperationException();
        }

        @Override
        public boolean isScheduled(String key) {
            return false;
        }

        @Override
        public void cancel(String key) { }
    }
}
