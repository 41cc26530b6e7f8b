import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams counts the records of each key, exactly once, until it is killed.
 *
 * <p>Arguments: bootstrap servers, application id, input topic, output topic, directory of its state. Each record of
 * the input becomes one of the output, with the value key:count.
 */
public class StreamsProgram {
    public static void main(String[] arguments) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("application.id", arguments[1]);
        properties.put("state.dir", arguments[4]);
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("commit.interval.ms", 100);
        properties.put("statestore.cache.max.bytes", 0);
        properties.put("replication.factor", 1);
        properties.put("consumer.auto.offset.reset", "earliest");
        properties.put("consumer.session.timeout.ms", 6_000);
        properties.put("consumer.heartbeat.interval.ms", 500);
        properties.put("producer.transaction.timeout.ms", 5_000);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[2], Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .map((key, count) -> KeyValue.pair(key, key + ":" + count))
            .to(arguments[3], Produced.with(Serdes.String(), Serdes.String()));
        new KafkaStreams(builder.build(), properties).start();
    }
}
