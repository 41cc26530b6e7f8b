import java.util.ArrayList;
import java.util.Comparator;
import java.util.function.Consumer;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.message.OffsetFetchRequestData.OffsetFetchRequestGroup;
import org.apache.kafka.common.message.OffsetFetchResponseData.OffsetFetchResponseGroup;
import org.apache.kafka.common.message.WriteTxnMarkersRequestData.WritableTxnMarker;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.OffsetCommitRequest;
import org.apache.kafka.common.requests.OffsetFetchResponse;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.requests.TxnOffsetCommitRequest;

/**
 * Requests for offsets, in JSON. Of a broker's checks there is only the look-up of topic ids: all topics and partitions
 * must exist.
 */
final class OffsetRequests {
    private static final short WITH_TOPIC_IDS = 10;

    interface EndOfTransaction {
        void wrote(WritableTxnMarker marker, TransactionResult result);
    }

    private final VirtualShard coordinator;
    private final Cluster cluster;
    private final EndOfTransaction listener;

    OffsetRequests(VirtualShard coordinator, Cluster cluster, EndOfTransaction listener) {
        this.coordinator = coordinator;
        this.cluster = cluster;
        this.listener = listener;
    }

    /** Returns whether the request is one of these. */
    boolean handle(String api, short version, String clientId, JsonNode body, Consumer<JsonNode> answer) {
        switch (api) {
            case "OffsetCommit" -> answer.accept(offsetCommit(version, clientId, body));
            case "TxnOffsetCommit" -> answer.accept(txnOffsetCommit(version, clientId, body));
            case "WriteTxnMarkers" -> answer.accept(writeTxnMarkers(version, body));
            case "OffsetFetch" -> answer.accept(offsetFetch(version, body));
            case "OffsetDelete" -> answer.accept(offsetDelete(version, clientId, body));
            default -> {
                return false;
            }
        }
        return true;
    }

    private JsonNode offsetCommit(short version, String clientId, JsonNode body) {
        var request = OffsetCommitRequestDataJsonConverter.read(body, version);
        for (var topic : request.topics()) {
            if (version >= WITH_TOPIC_IDS) {
                topic.setName(cluster.name(topic.topicId()));
            } else {
                topic.setTopicId(cluster.id(topic.name()));
            }
        }
        OffsetCommitResponseData response;
        try {
            response = coordinator.apply(coordinator.shard.commitOffset(
                ShardParts.context(ApiKeys.OFFSET_COMMIT, version, clientId), request));
        } catch (RuntimeException failure) {
            response = OffsetCommitRequest.getErrorResponse(request, Failures.error(failure));
            for (int index = 0; index < response.topics().size(); index++) {
                response.topics().get(index).setTopicId(request.topics().get(index).topicId());
            }
        }
        for (var topic : response.topics()) {
            if (version >= WITH_TOPIC_IDS) {
                topic.setName("");
            } else {
                topic.setTopicId(Uuid.ZERO_UUID);
            }
        }
        return OffsetCommitResponseDataJsonConverter.write(response, version);
    }

    private JsonNode txnOffsetCommit(short version, String clientId, JsonNode body) {
        var request = KafkaApi.txnOffsetCommit(body, version, cluster::id, cluster::name);
        TxnOffsetCommitResponseData response;
        try {
            response = coordinator.applyInTransaction(request.producerId(), request.producerEpoch(),
                coordinator.shard.commitTransactionalOffset(
                    ShardParts.context(ApiKeys.TXN_OFFSET_COMMIT, version, clientId), request));
        } catch (RuntimeException failure) {
            response = TxnOffsetCommitRequest.getErrorResponse(request, Failures.error(failure));
        }
        return TxnOffsetCommitResponseDataJsonConverter.write(response, version);
    }

    private JsonNode writeTxnMarkers(short version, JsonNode body) {
        var response = new WriteTxnMarkersResponseData();
        for (var marker : WriteTxnMarkersRequestDataJsonConverter.read(body, version).markers()) {
            var result = marker.transactionResult() ? TransactionResult.COMMIT : TransactionResult.ABORT;
            coordinator.endTransaction(marker.producerId(), marker.producerEpoch(), result);
            listener.wrote(marker, result);
            var answered = new WriteTxnMarkersResponseData.WritableTxnMarkerResult().setProducerId(marker.producerId());
            for (var topic : marker.topics()) {
                var partitions = new WriteTxnMarkersResponseData.WritableTxnMarkerTopicResult().setName(topic.name());
                topic.partitionIndexes().forEach(partition -> partitions.partitions().add(
                    new WriteTxnMarkersResponseData.WritableTxnMarkerPartitionResult().setPartitionIndex(partition)));
                answered.topics().add(partitions);
            }
            response.markers().add(answered);
        }
        return WriteTxnMarkersResponseDataJsonConverter.write(response, version);
    }

    private JsonNode offsetFetch(short version, JsonNode body) {
        var request = OffsetFetchRequestDataJsonConverter.read(body, version);
        var response = new OffsetFetchResponseData();
        for (OffsetFetchRequestGroup group : request.groups()) {
            if (group.topics() != null && version >= WITH_TOPIC_IDS) {
                group.topics().forEach(topic -> topic.setName(cluster.name(topic.topicId())));
            }
            OffsetFetchResponseGroup fetched;
            long upTo = request.requireStable() ? Long.MAX_VALUE : coordinator.committedOffset();
            try {
                fetched = coordinator.shard.fetchOffsets(group, upTo);
            } catch (RuntimeException failure) {
                fetched = OffsetFetchResponse.groupError(group, Failures.error(failure), version);
            }
            if (version >= WITH_TOPIC_IDS) {
                nameById(fetched);
            }
            if (group.topics() == null) {
                // Then Kafka answers in the order of a hash map.
                fetched.topics().forEach(topic -> topic.setPartitions(RecordForm.sorted(
                    topic.partitions(), Comparator.comparing(partition -> partition.partitionIndex()))));
            }
            response.groups().add(fetched);
        }
        return OffsetFetchResponseDataJsonConverter.write(new OffsetFetchResponse(response, version).data(), version);
    }

    /** A topic that has no id is left out. */
    private void nameById(OffsetFetchResponseGroup fetched) {
        for (var topic : fetched.topics()) {
            if (topic.name() != null && !topic.name().isEmpty()) {
                topic.setTopicId(cluster.id(topic.name()));
            }
            topic.setName("");
        }
        fetched.setTopics(new ArrayList<>(fetched.topics()));
        fetched.topics().removeIf(topic -> topic.topicId().equals(Uuid.ZERO_UUID));
    }

    private JsonNode offsetDelete(short version, String clientId, JsonNode body) {
        var request = OffsetDeleteRequestDataJsonConverter.read(body, version);
        OffsetDeleteResponseData response;
        try {
            response = coordinator.apply(coordinator.shard.deleteOffsets(
                ShardParts.context(ApiKeys.OFFSET_DELETE, version, clientId), request));
        } catch (RuntimeException failure) {
            response = new OffsetDeleteResponseData().setErrorCode(Failures.code(failure));
        }
        return OffsetDeleteResponseDataJsonConverter.write(response, version);
    }
}
