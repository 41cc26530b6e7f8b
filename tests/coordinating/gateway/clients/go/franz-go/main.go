// franz-go's consumer, told what to do line by line: see ../../consumers.py. Arguments: the topic, then name=value.
package main

import (
	"context"
	"errors"
	"time"

	"clients/lines"

	"github.com/twmb/franz-go/pkg/kgo"
)

func tell(kind string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		lines.Say(kind, lines.Names(partitions))
	}
}

// revoked does what franz-go's own callback, which it replaces, does: with auto commit, what was polled is committed before its partitions go.
func revoked(autoCommit bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
		if autoCommit {
			if err := client.CommitUncommittedOffsets(ctx); err != nil {
				lines.Say("error", "Commit", err)
			}
		}
		lines.Say("revoked", lines.Names(partitions))
	}
}

func options(topic string, settings lines.Settings) []kgo.Opt {
	autoCommit := settings["enable.auto.commit"] != "false"
	found := []kgo.Opt{
		kgo.SeedBrokers(settings["bootstrap.servers"]),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(settings["group.id"]),
		kgo.ClientID(settings["client.id"]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(settings.Ms("session.timeout.ms", 45*time.Second)),
		kgo.HeartbeatInterval(settings.Ms("heartbeat.interval.ms", 3*time.Second)),
		kgo.AutoCommitInterval(settings.Ms("auto.commit.interval.ms", 5*time.Second)),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.BlockRebalanceOnPoll(), // what was polled is told before partitions go
		kgo.OnPartitionsAssigned(tell("assigned")),
		kgo.OnPartitionsRevoked(revoked(autoCommit)),
		kgo.OnPartitionsLost(tell("lost")),
	}
	if settings["partition.assignment.strategy"] == "cooperative-sticky" {
		found = append(found, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if !autoCommit {
		found = append(found, kgo.DisableAutoCommit())
	}
	if instance := settings["group.instance.id"]; instance != "" {
		found = append(found, kgo.InstanceID(instance))
	}
	return found
}

func poll(client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	fetches := client.PollFetches(ctx)
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			lines.Say("error", "Fetch", err)
		}
	})
	fetches.EachRecord(func(record *kgo.Record) {
		lines.Say("record", record.Topic, record.Partition, record.Offset, string(record.Value))
	})
	client.AllowRebalance()
}

func main() {
	topic, settings := lines.Arguments()
	client, err := kgo.NewClient(options(topic, settings)...)
	if err != nil {
		panic(err)
	}
	commands := lines.Commands()
	for {
		select {
		case command := <-commands:
			switch command {
			case "close":
				client.CloseAllowingRebalance()
				lines.Say("closed")
				return
			case "commit":
				if err := client.CommitUncommittedOffsets(context.Background()); err != nil {
					lines.Say("error", "Commit", err)
				} else {
					lines.Say("committed")
				}
			}
		default:
			poll(client)
		}
	}
}
