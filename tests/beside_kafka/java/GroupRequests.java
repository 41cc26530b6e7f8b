import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.message.LeaveGroupRequestData.MemberIdentity;
import org.apache.kafka.common.message.LeaveGroupResponseData.MemberResponse;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.JoinGroupRequest;
import org.apache.kafka.common.requests.JoinGroupResponse;
import org.apache.kafka.common.requests.LeaveGroupResponse;
import org.apache.kafka.common.requests.RequestContext;

/** Requests of members, and about groups, in JSON, as a broker and its GroupCoordinatorService hand them on. */
final class GroupRequests {
    private final VirtualShard coordinator;

    GroupRequests(VirtualShard coordinator) {
        this.coordinator = coordinator;
    }

    /** Returns whether the request is one of these. The answer may come later. */
    boolean handle(String api, short version, String clientId, JsonNode body, Consumer<JsonNode> answer) {
        switch (api) {
            case "ConsumerGroupHeartbeat" -> answer.accept(consumerGroupHeartbeat(version, clientId, body));
            case "JoinGroup" -> joinGroup(version, clientId, body, answer);
            case "SyncGroup" -> syncGroup(version, clientId, body, answer);
            case "Heartbeat" -> answer.accept(heartbeat(version, clientId, body));
            case "LeaveGroup" -> answer.accept(leaveGroup(version, clientId, body));
            case "DeleteGroups" -> answer.accept(deleteGroups(version, clientId, body));
            case "ListGroups" -> answer.accept(listGroups(version, body));
            case "ConsumerGroupDescribe" -> answer.accept(consumerGroupDescribe(version, body));
            case "DescribeGroups" -> answer.accept(describeGroups(version, clientId, body));
            default -> {
                return false;
            }
        }
        return true;
    }

    private static RequestContext context(ApiKeys api, short version, String clientId) {
        return ShardParts.context(api, version, clientId);
    }

    private JsonNode consumerGroupHeartbeat(short version, String clientId, JsonNode body) {
        var request = ConsumerGroupHeartbeatRequestDataJsonConverter.read(body, version);
        ConsumerGroupHeartbeatResponseData response;
        try {
            response = coordinator.apply(coordinator.memberOrder.asInKafka(() ->
                coordinator.shard.consumerGroupHeartbeat(
                    context(ApiKeys.CONSUMER_GROUP_HEARTBEAT, version, clientId), request)));
        } catch (RuntimeException failure) {
            response = new ConsumerGroupHeartbeatResponseData().setErrorCode(Failures.code(failure));
        }
        return ConsumerGroupHeartbeatResponseDataJsonConverter.write(response, version);
    }

    private void joinGroup(short version, String clientId, JsonNode body, Consumer<JsonNode> answer) {
        // The wire classes of Kafka fill in what old versions lack.
        var request = new JoinGroupRequest(JoinGroupRequestDataJsonConverter.read(body, version), version).data();
        var future = new CompletableFuture<JoinGroupResponseData>();
        future.exceptionally(failure -> new JoinGroupResponseData().setErrorCode(Failures.code(failure)))
            .thenAccept(response -> answer.accept(JoinGroupResponseDataJsonConverter.write(
                new JoinGroupResponse(response, version).data(), version)));
        try {
            coordinator.apply(KafkaApi.join(
                coordinator.shard, context(ApiKeys.JOIN_GROUP, version, clientId), request, future));
        } catch (RuntimeException failure) {
            future.completeExceptionally(failure);
        }
    }

    private void syncGroup(short version, String clientId, JsonNode body, Consumer<JsonNode> answer) {
        var request = SyncGroupRequestDataJsonConverter.read(body, version);
        var future = new CompletableFuture<SyncGroupResponseData>();
        future.exceptionally(failure -> new SyncGroupResponseData().setErrorCode(Failures.code(failure)))
            .thenAccept(response -> answer.accept(SyncGroupResponseDataJsonConverter.write(response, version)));
        try {
            coordinator.apply(coordinator.shard.classicGroupSync(
                context(ApiKeys.SYNC_GROUP, version, clientId), request, future));
        } catch (RuntimeException failure) {
            future.completeExceptionally(failure);
        }
    }

    private JsonNode heartbeat(short version, String clientId, JsonNode body) {
        var request = HeartbeatRequestDataJsonConverter.read(body, version);
        HeartbeatResponseData response;
        try {
            response = coordinator.apply(coordinator.shard.classicGroupHeartbeat(
                context(ApiKeys.HEARTBEAT, version, clientId), request));
        } catch (RuntimeException failure) {
            response = new HeartbeatResponseData().setErrorCode(Failures.code(failure));
        }
        return HeartbeatResponseDataJsonConverter.write(response, version);
    }

    private JsonNode leaveGroup(short version, String clientId, JsonNode body) {
        var request = LeaveGroupRequestDataJsonConverter.read(body, version);
        if (version < 3) {
            request.setMembers(new ArrayList<>(List.of(new MemberIdentity().setMemberId(request.memberId()))));
        }
        LeaveGroupResponseData response;
        try {
            response = coordinator.apply(coordinator.shard.classicGroupLeave(
                context(ApiKeys.LEAVE_GROUP, version, clientId), request));
        } catch (UnknownMemberIdException unknown) {
            response = new LeaveGroupResponseData();
            for (MemberIdentity member : request.members()) {
                response.members().add(new MemberResponse().setMemberId(member.memberId())
                    .setGroupInstanceId(member.groupInstanceId()).setErrorCode(Errors.UNKNOWN_MEMBER_ID.code()));
            }
        } catch (RuntimeException failure) {
            response = new LeaveGroupResponseData().setErrorCode(Failures.code(failure));
        }
        // Old versions have one error, which Kafka's wire class takes from the only member.
        if (version < 3 && response.members().isEmpty()) {
            response.members().add(new MemberResponse().setErrorCode(response.errorCode()));
        }
        return LeaveGroupResponseDataJsonConverter.write(new LeaveGroupResponse(response, version).data(), version);
    }

    private JsonNode deleteGroups(short version, String clientId, JsonNode body) {
        var request = DeleteGroupsRequestDataJsonConverter.read(body, version);
        var response = new DeleteGroupsResponseData().setResults(coordinator.apply(coordinator.shard.deleteGroups(
            context(ApiKeys.DELETE_GROUPS, version, clientId), request.groupsNames())));
        return DeleteGroupsResponseDataJsonConverter.write(response, version);
    }

    private JsonNode listGroups(short version, JsonNode body) {
        var request = ListGroupsRequestDataJsonConverter.read(body, version);
        var response = new ListGroupsResponseData().setGroups(coordinator.shard.listGroups(
            request.statesFilter(), request.typesFilter(), coordinator.committedOffset()));
        return ListGroupsResponseDataJsonConverter.write(response, version);
    }

    private JsonNode consumerGroupDescribe(short version, JsonNode body) {
        var request = ConsumerGroupDescribeRequestDataJsonConverter.read(body, version);
        var response = new ConsumerGroupDescribeResponseData().setGroups(
            coordinator.shard.consumerGroupDescribe(request.groupIds(), coordinator.committedOffset()));
        return ConsumerGroupDescribeResponseDataJsonConverter.write(response, version);
    }

    private JsonNode describeGroups(short version, String clientId, JsonNode body) {
        var request = DescribeGroupsRequestDataJsonConverter.read(body, version);
        var response = new DescribeGroupsResponseData().setGroups(coordinator.shard.describeGroups(
            context(ApiKeys.DESCRIBE_GROUPS, version, clientId), request.groups(), coordinator.committedOffset()));
        return DescribeGroupsResponseDataJsonConverter.write(response, version);
    }
}
