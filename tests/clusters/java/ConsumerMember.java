import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a classic or a consumer group. Arguments as those of ShareMember. It commits every two seconds. */
public class ConsumerMember implements ConsumerRebalanceListener {
    private static final ByteArrayDeserializer BYTES = new ByteArrayDeserializer();
    private static final long COMMIT_INTERVAL_MS = 2000;
    private final Driven driven;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final TreeSet<String> owned = new TreeSet<>();

    private ConsumerMember(Driven driven, Properties properties) {
        this.driven = driven;
        this.consumer = new KafkaConsumer<>(properties, BYTES, BYTES);
    }

    public static void main(String[] arguments) throws Exception {
        Driven driven = new Driven(arguments[0]);
        ConsumerMember member = new ConsumerMember(driven, Driven.properties(arguments, 2));
        member.subscribe(arguments[1].split(","));
        driven.say("running");
        try {
            member.live();
            member.consumer.close();
        } catch (Exception problem) {
            driven.say("died", "error", String.valueOf(problem));
            System.exit(1);
        }
        driven.say("closed");
        System.exit(0);
    }

    private void live() throws Exception {
        long commitDue = System.currentTimeMillis() + COMMIT_INTERVAL_MS;
        boolean hasRead = false;
        while (true) {
            JsonNode command = driven.commands.poll();
            if (command != null && command.get(0).asText().equals("stop")) {
                return;
            } else if (command != null && command.get(0).asText().equals("hang")) {
                Thread.sleep((long) (command.get(1).asDouble() * 1000));
            } else if (command != null && command.get(0).asText().equals("subscribe")) {
                String[] topics = new String[command.get(1).size()];
                Arrays.setAll(topics, index -> command.get(1).get(index).asText());
                subscribe(topics);
            }
            hasRead |= !consumer.poll(Duration.ofMillis(100)).isEmpty();
            if (hasRead && System.currentTimeMillis() >= commitDue) {
                commitDue = System.currentTimeMillis() + COMMIT_INTERVAL_MS;
                hasRead = false;
                try {
                    consumer.commitSync(Duration.ofSeconds(3));
                } catch (KafkaException problem) {
                    driven.say("error", "error", String.valueOf(problem));
                }
            }
        }
    }

    private void subscribe(String[] topics) {
        if (topics[0].startsWith("^")) {
            consumer.subscribe(Pattern.compile(topics[0]), this);
        } else {
            consumer.subscribe(List.of(topics), this);
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        owned.addAll(names(partitions));
        changed("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        owned.removeAll(names(partitions));
        changed("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        owned.removeAll(names(partitions));
        changed("lost", partitions);
    }

    private void changed(String event, Collection<TopicPartition> partitions) {
        String memberId = consumer.groupMetadata().memberId();
        driven.say(event, "member_id", memberId, "owned", List.copyOf(owned), "partitions", names(partitions));
    }

    private static List<String> names(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).sorted().collect(Collectors.toList());
    }
}
