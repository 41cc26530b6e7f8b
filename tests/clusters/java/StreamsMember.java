import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * A member of a streams group: it counts records by their value, in two subtopologies. Arguments as those of
 * ShareMember. It tells its active tasks when they change.
 */
public class StreamsMember {
    public static void main(String[] arguments) throws Exception {
        Driven driven = new Driven(arguments[0]);
        Properties properties = Driven.properties(arguments, 2);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(List.of(arguments[1].split(",")), Consumed.with(Serdes.String(), Serdes.String()))
            .groupBy((key, value) -> value, Grouped.with("by-value", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.setStateListener((now, before) -> driven.say("state", "state", now.name()));
        streams.setUncaughtExceptionHandler(problem -> {
            driven.say("died", "error", String.valueOf(problem));
            Runtime.getRuntime().halt(1);
            return null;
        });
        streams.start();
        driven.say("running");
        List<String> owned = List.of();
        while (true) {
            JsonNode command = driven.commands.poll(300, TimeUnit.MILLISECONDS);
            if (command != null && command.get(0).asText().equals("stop")) {
                break;
            }
            List<String> tasks = new ArrayList<>();
            for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
                for (TaskMetadata task : thread.activeTasks()) {
                    tasks.add("subtopology " + task.taskId().subtopology() + "-" + task.taskId().partition());
                }
            }
            tasks.sort(null);
            if (!tasks.equals(owned)) {
                owned = tasks;
                driven.say("tasks", "owned", owned);
            }
        }
        streams.close();
        driven.say("closed");
        System.exit(0);
    }
}
