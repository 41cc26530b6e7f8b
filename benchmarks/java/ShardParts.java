import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import com.yammer.metrics.core.MetricsRegistry;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
// LogContext is in the one or, from Kafka 4.4 on, in the other.
import org.apache.kafka.common.utils.*;
import org.apache.kafka.common.utils.internals.*;
import org.apache.kafka.coordinator.common.runtime.CoordinatorExecutor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorTimer;
import org.apache.kafka.coordinator.group.GroupConfigManager;
import org.apache.kafka.coordinator.group.GroupCoordinatorConfig;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.timeline.SnapshotRegistry;

/** What a shard of Kafka's group coordinator needs around it, made from the broker's settings. */
final class ShardParts {
    private static final InetAddress HOST = host();

    final GroupConfigManager groupConfigs;
    private final GroupCoordinatorConfig config;

    ShardParts(Map<String, Object> settings) {
        var defined = Utils.mergeConfigs(List.of(GroupCoordinatorConfig.CONFIG_DEF, ShareGroupConfig.CONFIG_DEF));
        var share = new ShareGroupConfig(new AbstractConfig(defined, settings, false));
        config = GroupCoordinatorConfig.fromProps(settings);
        groupConfigs = KafkaApi.groupConfigs(config, share);
    }

    GroupCoordinatorShard build(
        Time clock,
        CoordinatorTimer<CoordinatorRecord> timer,
        CoordinatorExecutor<CoordinatorRecord> executor,
        SnapshotRegistry snapshots
    ) {
        var builder = new GroupCoordinatorShard.Builder(config, groupConfigs);
        builder.withAuthorizerPlugin(Optional.empty());
        GroupCoordinatorShard shard = builder
            .withLogContext(new LogContext())
            .withTime(clock)
            .withTimer(timer)
            .withExecutor(executor)
            .withCoordinatorMetrics(new GroupCoordinatorMetrics(new MetricsRegistry(), new Metrics()))
            .withTopicPartition(new TopicPartition("__consumer_offsets", 0))
            .withSnapshotRegistry(snapshots)
            .build();
        shard.onLoaded(CoordinatorMetadataImage.EMPTY);
        return shard;
    }

    static RequestContext context(ApiKeys api, int version, String clientId) {
        RequestHeader header = new RequestHeader(api, (short) version, clientId, 1);
        return new RequestContext(header, "1", HOST, KafkaPrincipal.ANONYMOUS,
            new ListenerName("PLAINTEXT"), SecurityProtocol.PLAINTEXT, ClientInformation.EMPTY, false);
    }

    private static InetAddress host() {
        try {
            return InetAddress.getByAddress(new byte[] {127, 0, 0, 1});
        } catch (UnknownHostException impossible) {
            throw new IllegalStateException(impossible);
        }
    }
}
