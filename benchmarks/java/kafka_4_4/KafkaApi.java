import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.message.TxnOffsetCommitRequestDataJsonConverter;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorResult;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;

/** What is called otherwise in Kafka 4.4 than in other versions. */
final class KafkaApi {
    private static final short WITH_TOPIC_IDS = 6;

    private KafkaApi() {
    }

    static GroupConfigManager groupConfigs(GroupCoordinatorConfig config, ShareGroupConfig share) {
        return new GroupConfigManager(config, share);
    }

    static CoordinatorResult<?, CoordinatorRecord> join(
        GroupCoordinatorShard shard,
        RequestContext context,
        JoinGroupRequestData request,
        CompletableFuture<JoinGroupResponseData> future
    ) {
        // As where no plug-in stores topologies of streams groups: there is nothing to clean up first.
        return shard.classicGroupJoin(context, request, future, true);
    }

    static TxnOffsetCommitRequestData txnOffsetCommit(
        JsonNode body, short version, Function<String, Uuid> id, Function<Uuid, String> name
    ) {
        // Histories have the field's name of before for versions of before.
        if (body.has("generationId")) {
            ((ObjectNode) body).set("generationIdOrMemberEpoch", body.get("generationId"));
        }
        var request = TxnOffsetCommitRequestDataJsonConverter.read(body, version);
        for (var topic : request.topics()) {
            if (version >= WITH_TOPIC_IDS) {
                topic.setName(name.apply(topic.topicId()));
            } else {
                topic.setTopicId(id.apply(topic.name()));
            }
        }
        return request;
    }
}
