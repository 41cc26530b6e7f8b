import java.util.Arrays;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/** Commits an offset in each of many transactions, at several addresses in turns. Arguments: topic, transactions without measuring, measured ones, addresses. Prints for each address the medians of sendOffsetsToTransaction and of the whole transaction, in microseconds. */
public class TransactionBenchmark {
    public static void main(String[] arguments) {
        int warmUp = Integer.parseInt(arguments[1]), measured = Integer.parseInt(arguments[2]);
        String[] addresses = Arrays.copyOfRange(arguments, 3, arguments.length);
        long[][] commits = new long[addresses.length][measured], wholes = new long[addresses.length][measured];
        KafkaProducer<?, ?>[] producers = Arrays.stream(addresses).map(TransactionBenchmark::producer).toArray(KafkaProducer[]::new);
        for (KafkaProducer<?, ?> producer : producers) {
            producer.initTransactions();
        }
        for (int number = -warmUp; number < measured; number++) {
            for (int place = 0; place < addresses.length; place++) {
                KafkaProducer<?, ?> producer = producers[place];
                long begun = System.nanoTime();
                producer.beginTransaction();
                producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(arguments[0], 0), new OffsetAndMetadata(number + warmUp)),
                    new ConsumerGroupMetadata("transactions"));
                long sent = System.nanoTime();
                producer.commitTransaction();
                if (number >= 0) {
                    commits[place][number] = sent - begun;
                    wholes[place][number] = System.nanoTime() - begun;
                }
            }
        }
        for (int place = 0; place < addresses.length; place++) {
            System.out.println(median(commits[place]) + " " + median(wholes[place]));
            producers[place].close();
        }
    }

    private static KafkaProducer<String, String> producer(String address) {
        return new KafkaProducer<>(
            Map.of("bootstrap.servers", address, "transactional.id", "at-" + address),
            new StringSerializer(), new StringSerializer());
    }

    private static long median(long[] nanoseconds) {
        Arrays.sort(nanoseconds);
        return nanoseconds[nanoseconds.length / 2] / 1_000;
    }
}
