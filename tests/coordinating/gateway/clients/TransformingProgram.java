import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A loop of Apache Kafka's own clients that consumes, transforms and produces in transactions: as transforming.py, with the same arguments and exit codes; perhaps one more, the transaction timeout. */
public class TransformingProgram {
    private static final int BEGIN_AGAIN = 3;

    public static void main(String[] arguments) {
        String source = arguments[2], target = arguments[3], groupProtocol = arguments[5];
        Random chance = new Random();
        Map<String, Object> consumed = new HashMap<>(Map.of(
            "bootstrap.servers", arguments[0], "group.id", arguments[1], "enable.auto.commit", false,
            "auto.offset.reset", "earliest", "isolation.level", "read_committed", "max.poll.records", 10,
            "group.protocol", groupProtocol));
        if (groupProtocol.equals("classic")) {
            consumed.putAll(Map.of("session.timeout.ms", 6_000, "heartbeat.interval.ms", 500));
        }
        Map<String, Object> produced = Map.of(
            "bootstrap.servers", arguments[0], "transactional.id", arguments[4],
            "transaction.timeout.ms", arguments.length > 6 ? arguments[6] : "15000");
        try (
            KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(consumed, new StringDeserializer(), new StringDeserializer());
            KafkaProducer<String, String> producer =
                new KafkaProducer<>(produced, new StringSerializer(), new StringSerializer())
        ) {
            producer.initTransactions();
            consumer.subscribe(Set.of(source));
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                try {
                    transform(records, consumer, producer, target, chance.nextInt(5) > 0);
                } catch (TimeoutException late) {
                    throw late; // whether it was committed is not known: who begins again knows
                } catch (KafkaException problem) {
                    System.err.println(problem);
                    producer.abortTransaction(); // it fails where only a new producer can go on
                    readAgain(consumer);
                }
            }
        } catch (KafkaException problem) {
            System.err.println(problem);
            System.exit(BEGIN_AGAIN);
        }
    }

    private static void transform(
        ConsumerRecords<String, String> records, KafkaConsumer<String, String> consumer,
        KafkaProducer<String, String> producer, String target, boolean commits
    ) {
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        producer.beginTransaction();
        for (ConsumerRecord<String, String> record : records) {
            producer.send(new ProducerRecord<>(target, record.value()));
            ends.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
        if (commits) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
            readAgain(consumer);
        }
    }

    /** Go back to what is committed. */
    private static void readAgain(KafkaConsumer<String, String> consumer) {
        consumer.committed(consumer.assignment()).forEach((partition, committed) ->
            consumer.seek(partition, committed == null ? 0 : committed.offset()));
    }
}
