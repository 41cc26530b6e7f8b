import java.util.concurrent.CompletionException;

import org.apache.kafka.common.protocol.Errors;

/** The error codes of exceptions, as Kafka's GroupCoordinatorService answers them. */
final class Failures {
    private Failures() { }

    static short code(Throwable failure) {
        return error(failure).code();
    }

    static Errors error(Throwable failure) {
        Throwable cause = failure;
        while (cause instanceof CompletionException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        Errors error = Errors.forException(cause);
        if (error == Errors.UNKNOWN_SERVER_ERROR) {
            cause.printStackTrace();
        }
        return switch (error) {
            case UNKNOWN_TOPIC_OR_PARTITION, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT -> Errors.COORDINATOR_NOT_AVAILABLE;
            case NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR -> Errors.NOT_COORDINATOR;
            default -> error;
        };
    }
}
