import java.util.function.Supplier;

import org.apache.kafka.common.utils.Time;

/** A clock that somebody else moves. */
final class VirtualClock implements Time {
    private long nowMs;

    VirtualClock(long startMs) {
        nowMs = startMs;
    }

    void set(long milliseconds) {
        nowMs = milliseconds;
    }

    @Override
    public long milliseconds() {
        return nowMs;
    }

    @Override
    public long nanoseconds() {
        return nowMs * 1_000_000;
    }

    @Override
    public void sleep(long milliseconds) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
        throw new UnsupportedOperationException();
    }
}
