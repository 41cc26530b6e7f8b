import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of a share group. Arguments: its name, its topics with commas, and properties as name=value. */
public class ShareMember {
    public static void main(String[] arguments) throws Exception {
        Driven driven = new Driven(arguments[0]);
        Properties properties = Driven.properties(arguments, 2);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(properties, bytes, bytes)) {
            consumer.subscribe(List.of(arguments[1].split(",")));
            driven.say("running");
            while (true) {
                JsonNode command = driven.commands.poll();
                if (command != null && command.get(0).asText().equals("stop")) {
                    break;
                } else if (command != null && command.get(0).asText().equals("hang")) {
                    Thread.sleep((long) (command.get(1).asDouble() * 1000));
                } else if (command != null && command.get(0).asText().equals("subscribe")) {
                    String[] topics = new String[command.get(1).size()];
                    Arrays.setAll(topics, index -> command.get(1).get(index).asText());
                    consumer.subscribe(List.of(topics));
                }
                consumer.poll(Duration.ofMillis(100));
            }
        } catch (Exception problem) {
            driven.say("died", "error", String.valueOf(problem));
            System.exit(1);
        }
        driven.say("closed");
        System.exit(0);
    }
}
