import java.util.concurrent.CompletableFuture;
import java.util.function.Function;

import com.fasterxml.jackson.databind.JsonNode;
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

/** What is called otherwise in Kafka 4.3 than in other versions. */
final class KafkaApi {
    private KafkaApi() {
    }

    static GroupConfigManager groupConfigs(GroupCoordinatorConfig config, ShareGroupConfig share) {
        return new GroupConfigManager(config.extractGroupConfigMap(share), config, share);
    }

    static CoordinatorResult<?, CoordinatorRecord> join(
        GroupCoordinatorShard shard,
        RequestContext context,
        JoinGroupRequestData request,
        CompletableFuture<JoinGroupResponseData> future
    ) {
        return shard.classicGroupJoin(context, request, future);
    }

    static TxnOffsetCommitRequestData txnOffsetCommit(
        JsonNode body, short version, Function<String, Uuid> id, Function<Uuid, String> name
    ) {
        return TxnOffsetCommitRequestDataJsonConverter.read(body, version);
    }
}
