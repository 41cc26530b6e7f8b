// A loop of franz-go that consumes, transforms and produces in transactions: as ../../transforming.py, with the same arguments and exit codes.
package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	beginAgain = 3
	round      = 60 * time.Second // a round that takes longer ends the loop
)

func end(problem any) {
	fmt.Fprintln(os.Stderr, problem)
	os.Exit(beginAgain)
}

func options(servers, group, source, transactionalID, protocol string) []kgo.Opt {
	found := []kgo.Opt{
		kgo.SeedBrokers(servers),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.TransactionalID(transactionalID),
		kgo.TransactionTimeout(15 * time.Second),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.UnknownTopicRetries(-1),
		kgo.Balancers(kgo.RangeBalancer()), // the consumer protocol has it, too
	}
	if protocol == "consumer" {
		return append(found, kgo.ServerSideBalancer())
	}
	return append(found, kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))
}

// transform puts what was read into one transaction. Where that is not committed, the session reads again from what is.
func transform(session *kgo.GroupTransactSession, records []*kgo.Record, target string, commits bool) {
	if err := session.Begin(); err != nil {
		end(err)
	}
	first := kgo.AbortingFirstErrPromise(session.Client())
	for _, record := range records {
		session.Produce(context.Background(), &kgo.Record{Topic: target, Value: record.Value}, first.Promise())
	}
	commits = first.Err() == nil && commits
	if _, err := session.End(context.Background(), kgo.TransactionEndTry(commits)); err != nil {
		end(err) // whether it was committed may not be known: who begins again knows
	}
}

func main() {
	servers, group, source, target, transactionalID, protocol := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], os.Args[6]
	session, err := kgo.NewGroupTransactSession(options(servers, group, source, transactionalID, protocol)...)
	if err != nil {
		end(err)
	}
	late := time.AfterFunc(round, func() { end("a round takes too long") })
	for {
		late.Reset(round)
		ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
		records := session.PollRecords(ctx, 1+rand.Intn(20)).Records()
		cancel()
		if len(records) > 0 {
			transform(session, records, target, rand.Intn(5) > 0)
		}
	}
}
