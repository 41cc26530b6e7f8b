import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.RemoveTopicRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.GroupCoordinatorShard.DeletedTopic;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.TopicImage;

/** The metadata of the cluster, as the steps tell of it. Broker n stands in rack "rn". */
final class Cluster {
    private static final int BROKERS = 6;

    private MetadataImage image;

    Cluster() {
        var delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int broker = 0; broker < BROKERS; broker++) {
            delta.replay(new RegisterBrokerRecord().setBrokerId(broker).setRack("r" + broker).setFenced(false));
        }
        image = delta.apply(new MetadataProvenance(0, 0, 0, true));
    }

    String name(Uuid id) {
        TopicImage topic = image.topics().getTopic(id);
        return topic == null ? null : topic.name();
    }

    Uuid id(String name) {
        TopicImage topic = image.topics().getTopic(name);
        return topic == null ? Uuid.ZERO_UUID : topic.id();
    }

    /** From now on these topics exist and no others. The coordinator hears it as a broker's does. */
    void change(JsonNode told, VirtualShard coordinator) {
        var delta = new MetadataDelta.Builder().setImage(image).build();
        Set<Uuid> ids = new HashSet<>();
        told.get("topics").forEach(topic -> ids.add(Uuid.fromString(topic.get("topic_id").asText())));
        List<DeletedTopic> deleted = new ArrayList<>();
        for (TopicImage topic : image.topics().topicsById().values()) {
            if (!ids.contains(topic.id())) {
                delta.replay(new RemoveTopicRecord().setTopicId(topic.id()));
                deleted.add(new DeletedTopic(topic.id(), topic.name()));
            }
        }
        told.get("topics").forEach(topic -> change(topic, delta));
        image = delta.apply(new MetadataProvenance(told.get("version").asLong(), 0, 0, true));
        coordinator.shard.onMetadataUpdate(
            new KRaftCoordinatorMetadataDelta(delta), new KRaftCoordinatorMetadataImage(image));
        if (!deleted.isEmpty()) {
            coordinator.apply(coordinator.shard.onTopicsDeleted(deleted));
        }
    }

    private void change(JsonNode told, MetadataDelta delta) {
        Uuid id = Uuid.fromString(told.get("topic_id").asText());
        TopicImage known = image.topics().getTopic(id);
        if (known == null) {
            delta.replay(new TopicRecord().setName(told.get("name").asText()).setTopicId(id));
        }
        for (int partition = 0; partition < told.get("partitions").asInt(); partition++) {
            List<Integer> replicas = new ArrayList<>();
            told.get("racks").get(partition).forEach(
                rack -> replicas.add(Integer.parseInt(rack.asText().substring(1))));
            if (known == null || known.partitions().get(partition) == null) {
                delta.replay(new PartitionRecord().setTopicId(id).setPartitionId(partition).setReplicas(replicas)
                    .setIsr(replicas).setLeader(replicas.get(0)).setLeaderEpoch(0).setPartitionEpoch(0));
            } else if (!replicas.equals(replicas(known, partition))) {
                delta.replay(new PartitionChangeRecord().setTopicId(id).setPartitionId(partition)
                    .setReplicas(replicas).setIsr(replicas).setLeader(replicas.get(0)));
            }
        }
    }

    private static List<Integer> replicas(TopicImage topic, int partition) {
        List<Integer> replicas = new ArrayList<>();
        for (int replica : topic.partitions().get(partition).replicas) {
            replicas.add(replica);
        }
        return replicas;
    }
}
