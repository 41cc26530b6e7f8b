import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Apache Kafka's own consumer, told what to do line by line: see consumers.py. Arguments: the topic, or ^ and an expression for topics, then name=value. */
public class ConsumerProgram {
    private static final Duration COMMIT_WITHIN = Duration.ofSeconds(3);

    private static synchronized void say(String kind, Object... parts) {
        StringBuilder line = new StringBuilder(kind);
        for (Object part : parts) {
            line.append('\t').append(String.valueOf(part).replace('\n', ' '));
        }
        System.out.println(line);
    }

    private static String names(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).sorted().collect(Collectors.joining(" "));
    }

    /**
     * Commit what was read of partitions that go, if commits are automatic. With a cooperative assignor the classic
     * consumer commits when it begins to join, and goes on reading until it hears which partitions go.
     *
     * <p>A topic that is deleted goes, too. A commit for it is tried again for a minute by itself, and meanwhile the
     * consumer gives up nothing.
     */
    private static void commit(
        KafkaConsumer<String, String> consumer, Properties properties, Collection<TopicPartition> partitions
    ) {
        if (properties.getProperty("enable.auto.commit", "true").equals("false")) {
            return;
        }
        try {
            consumer.commitSync(partitions.stream().collect(Collectors.toMap(
                partition -> partition,
                partition -> new OffsetAndMetadata(consumer.position(partition, COMMIT_WITHIN)))), COMMIT_WITHIN);
        } catch (RebalanceInProgressException | CommitFailedException | TimeoutException refused) {
            // The next owner reads it again.
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        for (int index = 1; index < arguments.length; index++) {
            String[] setting = arguments[index].split("=", 2);
            properties.put(setting[0], setting[1]);
        }
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        LinkedBlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    commands.add(line);
                }
            } catch (Exception end) {
                // The one who gives the commands is gone.
            }
            commands.add("close");
        });
        reader.setDaemon(true);
        reader.start();
        boolean polls = true;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            ConsumerRebalanceListener listener = new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    say("assigned", names(partitions));
                }

                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    commit(consumer, properties, partitions);
                    say("revoked", names(partitions));
                }

                @Override
                public void onPartitionsLost(Collection<TopicPartition> partitions) {
                    say("lost", names(partitions));
                }
            };
            if (arguments[0].startsWith("^")) {
                consumer.subscribe(new SubscriptionPattern(arguments[0].substring(1)), listener);
            } else {
                consumer.subscribe(List.of(arguments[0]), listener);
            }
            while (true) {
                String command = polls ? commands.poll() : commands.take();
                if (command != null) {
                    String[] words = command.split(" ");
                    if (words[0].equals("close")) {
                        break;
                    } else if (words[0].equals("pause") || words[0].equals("resume")) {
                        polls = words[0].equals("resume");
                    } else if (words[0].equals("seek")) {
                        consumer.seek(new TopicPartition(words[1], Integer.parseInt(words[2])), Long.parseLong(words[3]));
                    } else {
                        try {
                            consumer.commitSync();
                            say("committed");
                        } catch (Exception problem) {
                            say("error", problem.getClass().getSimpleName(), problem.getMessage());
                        }
                    }
                    continue;
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    say("record", record.topic(), record.partition(), record.offset(), record.value());
                }
            }
        } catch (Exception problem) {
            say("error", problem.getClass().getSimpleName(), problem.getMessage());
            System.exit(1);
        }
        say("closed");
    }
}
