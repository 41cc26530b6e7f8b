// sarama's consumer, told what to do line by line: see ../../consumers.py. Arguments: the topic, then name=value.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"clients/lines"

	"github.com/IBM/sarama"
)

// consumer tells what a session brings, and commits when it is told to.
type consumer struct {
	mutex   sync.Mutex
	session sarama.ConsumerGroupSession
}

func (c *consumer) Setup(session sarama.ConsumerGroupSession) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.session = session
	lines.Say("assigned", lines.Names(session.Claims()))
	return nil
}

func (c *consumer) Cleanup(session sarama.ConsumerGroupSession) error {
	lines.Say("revoked", lines.Names(session.Claims()))
	return nil
}

func (c *consumer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, ok := <-claim.Messages():
			if !ok {
				return nil
			}
			lines.Say("record", message.Topic, message.Partition, message.Offset, string(message.Value))
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func (c *consumer) commit() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.session == nil {
		lines.Say("error", "Commit", "there is no session")
		return
	}
	c.session.Commit()
	lines.Say("committed")
}

func config(settings lines.Settings) *sarama.Config {
	found := sarama.NewConfig()
	found.ClientID = settings["client.id"]
	found.Version = sarama.MaxVersion
	found.Consumer.Offsets.Initial = sarama.OffsetOldest
	found.Consumer.Offsets.AutoCommit.Enable = settings["enable.auto.commit"] != "false"
	found.Consumer.Offsets.AutoCommit.Interval = settings.Ms("auto.commit.interval.ms", time.Second)
	found.Consumer.Group.Session.Timeout = settings.Ms("session.timeout.ms", 45*time.Second)
	found.Consumer.Group.Heartbeat.Interval = settings.Ms("heartbeat.interval.ms", 3*time.Second)
	found.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	found.Consumer.Group.InstanceId = settings["group.instance.id"]
	return found
}

func main() {
	topic, settings := lines.Arguments()
	group, err := sarama.NewConsumerGroup([]string{settings["bootstrap.servers"]}, settings["group.id"], config(settings))
	if err != nil {
		panic(err)
	}
	ours := &consumer{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{topic}, ours); err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
				lines.Say("error", "Consume", err)
			}
		}
	}()
	for command := range lines.Commands() {
		switch command {
		case "close":
			cancel()
			<-done
			group.Close()
			lines.Say("closed")
			return
		case "commit":
			ours.commit()
		}
	}
}
