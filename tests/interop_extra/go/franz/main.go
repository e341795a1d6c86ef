// A topic's life with franz-go; what was seen goes to stdout as one JSON object.
//
//	go run ./franz live BOOTSTRAP TOPIC
//	go run ./franz die BOOTSTRAP TOPIC
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const each = 200

type life struct {
	brokers []string
	topic   string
	group   string
}

func main() {
	brokers, topic := strings.Split(os.Args[2], ","), os.Args[3]
	one := life{brokers, topic, topic + "-group"}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client := one.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	if os.Args[1] == "live" {
		one.live(ctx, admin)
		return
	}
	deleted, err := admin.DeleteTopics(ctx, topic)
	must(err)
	must(deleted.Error())
	groups, err := admin.DeleteGroups(ctx, one.group)
	must(err)
	must(groups.Error())
}

func (l life) live(ctx context.Context, admin *kadm.Client) {
	_, err := admin.CreateTopic(ctx, 3, 3, nil, l.topic)
	must(err)
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	for name, codec := range codecs {
		l.produce(ctx, name, codec)
	}
	total := int64(each * len(codecs))
	read := l.consumeAsGroup(ctx, admin, total)
	committed := l.committed(ctx, admin)
	ends, err := admin.ListEndOffsets(ctx, l.topic)
	must(err)
	var end int64
	ends.Each(func(o kadm.ListedOffset) { end += o.Offset })
	described, err := admin.DescribeGroups(ctx, l.group)
	must(err)

	// Aborted first: whoever has read the other one's records has passed by these.
	l.transaction(ctx, "dropped", kgo.TryAbort)
	l.transaction(ctx, "kept", kgo.TryCommit)
	visible := l.readCommitted(ctx, int(total)+30)

	value := "86400001"
	changes := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &value}}
	altered, err := admin.AlterTopicConfigs(ctx, changes, l.topic)
	must(err)
	must(altered[0].Err)
	grown, err := admin.UpdatePartitions(ctx, 6, l.topic)
	must(err)
	must(grown.Error())

	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"read": read, "committed": committed, "ends": end,
		"group": strings.ToLower(described[l.group].State),
		"kept":  starting(visible, "kept"), "dropped": starting(visible, "dropped"),
		"retention": l.retention(ctx, admin, value),
	}))
}

func (l life) client(more ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(more, kgo.SeedBrokers(l.brokers...))...)
	must(err)
	return client
}

func (l life) records(prefix string, count int) []*kgo.Record {
	var records []*kgo.Record
	for at := range count {
		records = append(records, &kgo.Record{
			Topic: l.topic, Partition: int32(at % 3), Key: fmt.Appendf(nil, "k%d", at),
			Value: fmt.Appendf(nil, "%s-%d", prefix, at),
		})
	}
	return records
}

func (l life) produce(ctx context.Context, name string, codec kgo.CompressionCodec) {
	// Idempotence and acks from all replicas are its defaults.
	client := l.client(
		kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	must(client.ProduceSync(ctx, l.records(name, each)...).FirstErr())
}

// Two members share the topic until all of it is read and committed; the count of different values.
func (l life) consumeAsGroup(ctx context.Context, admin *kadm.Client, total int64) int {
	var members []*kgo.Client
	for range 2 {
		member := l.client(
			kgo.ConsumerGroup(l.group), kgo.ConsumeTopics(l.topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		defer member.Close()
		members = append(members, member)
	}
	seen := map[string]bool{}
	for l.committed(ctx, admin) < total || !l.isShared(ctx, admin) {
		for _, member := range members {
			short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
			fetched := member.PollFetches(short)
			cancel()
			fetched.EachRecord(func(r *kgo.Record) { seen[string(r.Value)] = true })
			// While the group rebalances this is refused, and what was read is read again.
			if err := member.CommitUncommittedOffsets(ctx); err != nil {
				log.Print(err)
			}
		}
	}
	return len(seen)
}

func (l life) committed(ctx context.Context, admin *kadm.Client) int64 {
	offsets, err := admin.FetchOffsets(ctx, l.group)
	must(err)
	var total int64
	offsets.Each(func(o kadm.OffsetResponse) { total += o.At })
	return total
}

func (l life) isShared(ctx context.Context, admin *kadm.Client) bool {
	described, err := admin.DescribeGroups(ctx, l.group)
	must(err)
	group := described[l.group]
	return group.State == "Stable" && len(group.Members) == 2
}

func (l life) transaction(ctx context.Context, prefix string, end kgo.TransactionEndTry) {
	client := l.client(
		kgo.TransactionalID(l.topic+"-txn"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	must(client.BeginTransaction())
	must(client.ProduceSync(ctx, l.records(prefix, 30)...).FirstErr())
	must(client.EndTransaction(ctx, end))
}

// What a reader of committed records finds, until it has as many as are due.
func (l life) readCommitted(ctx context.Context, due int) map[string]bool {
	client := l.client(
		kgo.ConsumeTopics(l.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer client.Close()
	seen := map[string]bool{}
	for len(seen) < due {
		fetched := client.PollFetches(ctx)
		must(fetched.Err())
		fetched.EachRecord(func(r *kgo.Record) { seen[string(r.Value)] = true })
	}
	return seen
}

func (l life) retention(ctx context.Context, admin *kadm.Client, want string) string {
	found := ""
	for tries := 0; tries < 50 && found != want; tries++ {
		described, err := admin.DescribeTopicConfigs(ctx, l.topic)
		must(err)
		for _, config := range described[0].Configs {
			if config.Key == "retention.ms" {
				found = config.MaybeValue()
			}
		}
	}
	return found
}

func starting(values map[string]bool, prefix string) int {
	count := 0
	for value := range values {
		if strings.HasPrefix(value, prefix) {
			count++
		}
	}
	return count
}

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}
