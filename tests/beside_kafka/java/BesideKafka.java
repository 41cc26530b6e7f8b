import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.message.WriteTxnMarkersRequestData.WritableTxnMarker;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;

/**
 * Plays histories with Kafka's own coordinator: reads a history's settings or its next step from a line, and writes
 * the answers and records of the step in another.
 */
final class BesideKafka {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final VirtualShard coordinator;
    private final Cluster cluster = new Cluster();
    private final GroupRequests groupRequests;
    private final OffsetRequests offsetRequests;
    private ArrayNode answers = JSON.createArrayNode();
    private ArrayNode records = JSON.createArrayNode();

    private BesideKafka(JsonNode config, long seed) {
        Map<String, Object> settings = new HashMap<>();
        config.properties().forEach(setting -> settings.put(setting.getKey(), setting.getValue().asText()));
        SeededIds.seed(seed);
        coordinator = new VirtualShard(
            settings, config.get("start_ms").asLong(), config.get("background_ms").asLong(), this::wrote);
        groupRequests = new GroupRequests(coordinator);
        offsetRequests = new OffsetRequests(coordinator, cluster, this::wroteMarker);
    }

    public static void main(String[] arguments) throws IOException {
        SeededIds.install();
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BesideKafka history = null;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode told = JSON.readTree(line);
            if (told.has("config")) {
                history = new BesideKafka(told.get("config"), told.get("seed").asLong());
                output.println("{}");
            } else {
                output.println(JSON.writeValueAsString(history.play(told)));
            }
        }
        System.exit(0);
    }

    private ObjectNode play(JsonNode step) {
        answers = JSON.createArrayNode();
        records = JSON.createArrayNode();
        coordinator.advance(step.get("at_ms").asLong());
        if (step.has("cluster")) {
            cluster.change(step.get("cluster"), coordinator);
        }
        if (step.has("group_config")) {
            Properties config = new Properties();
            step.get("group_config").get("config").properties().forEach(
                setting -> config.put(setting.getKey(), setting.getValue().asText()));
            coordinator.groupConfigs.updateGroupConfig(step.get("group_config").get("group").asText(), config);
        }
        if (step.has("api")) {
            request(step);
        }
        // Background work that takes no time follows in the same step.
        coordinator.advance(coordinator.nowMs());
        ObjectNode played = JSON.createObjectNode();
        played.set("answers", answers);
        played.set("records", records);
        return played;
    }

    private void request(JsonNode step) {
        String api = step.get("api").asText();
        short version = (short) step.get("version").asInt();
        String clientId = step.get("client_id").asText();
        int id = step.get("id").asInt();
        JsonNode body = step.get("request");
        if (!groupRequests.handle(api, version, clientId, body, response -> answered(id, response))
            && !offsetRequests.handle(api, version, clientId, body, response -> answered(id, response))) {
            throw new IllegalArgumentException(api);
        }
    }

    private void answered(int id, JsonNode response) {
        ((ObjectNode) response).remove("throttleTimeMs");
        answers.addObject().put("id", id).put("at_ms", coordinator.nowMs()).set("response", response);
    }

    private void wrote(CoordinatorRecord record, long nowMs, long producerId, short producerEpoch) {
        ObjectNode form = RecordForm.of(record, nowMs);
        if (producerId >= 0) {
            form.put("producer_id", producerId).put("producer_epoch", producerEpoch);
        }
        records.add(form);
    }

    private void wroteMarker(WritableTxnMarker marker, TransactionResult result) {
        ObjectNode form = records.addObject().put("at_ms", coordinator.nowMs()).put("type", "EndTransactionMarker")
            .put("producer_id", marker.producerId()).put("producer_epoch", marker.producerEpoch());
        form.putObject("value").put("result", result.name()).put("coordinator_epoch", marker.coordinatorEpoch());
    }
}
