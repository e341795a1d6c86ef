// A topic's life with sarama; what was seen goes to stdout as one JSON object.
//
//	go run ./sarama live BOOTSTRAP TOPIC
//	go run ./sarama die BOOTSTRAP TOPIC
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const each = 200

var codecs = []sarama.CompressionCodec{
	sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy,
	sarama.CompressionLZ4, sarama.CompressionZSTD,
}

type life struct {
	brokers []string
	topic   string
	group   string
}

func main() {
	one := life{strings.Split(os.Args[2], ","), os.Args[3], os.Args[3] + "-group"}
	admin, err := sarama.NewClusterAdmin(one.brokers, settings())
	must(err)
	defer admin.Close()
	if os.Args[1] == "live" {
		one.live(admin)
		return
	}
	must(admin.DeleteTopic(one.topic))
	must(admin.DeleteConsumerGroup(one.group))
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_9_0_0
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Return.Errors = false
	return config
}

func (l life) live(admin sarama.ClusterAdmin) {
	detail := &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 3}
	must(admin.CreateTopic(l.topic, detail, false))
	for _, codec := range codecs {
		config := settings()
		config.Producer.Compression = codec
		producer, err := sarama.NewSyncProducer(l.brokers, config)
		must(err)
		must(producer.SendMessages(l.messages(codec.String(), each)))
		must(producer.Close())
	}
	total := each * len(codecs)
	read := l.consumeAsGroup(admin, total)
	fetched, err := admin.ListConsumerGroupOffsets(l.group, nil)
	must(err)
	var committed int64
	for _, block := range fetched.Blocks[l.topic] {
		committed += block.Offset
	}
	ends := l.ends()
	described, err := admin.DescribeConsumerGroups([]string{l.group})
	must(err)

	// Aborted first: whoever has read the other one's records has passed by these.
	l.transaction("dropped", sarama.SyncProducer.AbortTxn)
	l.transaction("kept", sarama.SyncProducer.CommitTxn)
	visible := l.readCommitted(total + 30)

	value := "86400001"
	entries := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value},
	}
	must(admin.IncrementalAlterConfig(sarama.TopicResource, l.topic, entries, false))
	must(admin.CreatePartitions(l.topic, 6, nil, false))

	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"read": read, "committed": committed, "ends": sum(ends),
		"group": strings.ToLower(described[0].State),
		"kept":  starting(visible, "kept"), "dropped": starting(visible, "dropped"),
		"retention": l.retention(admin, value),
	}))
}

func (l life) messages(prefix string, count int) []*sarama.ProducerMessage {
	var messages []*sarama.ProducerMessage
	for at := range count {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: l.topic, Partition: int32(at % 3),
			Key:   sarama.StringEncoder(fmt.Sprintf("k%d", at)),
			Value: sarama.StringEncoder(fmt.Sprintf("%s-%d", prefix, at)),
		})
	}
	return messages
}

// One member of a group; it tells what it reads and stays until its context ends.
type member struct {
	values chan<- string
}

func (m member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (m member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m member) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		s.MarkMessage(message, "")
		m.values <- string(message.Value)
	}
	return nil
}

// Two members share the topic; the count of different values. Leaving, they commit what they read.
func (l life) consumeAsGroup(admin sarama.ClusterAdmin, total int) int {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	values := make(chan string, 10*total)
	var members sync.WaitGroup
	for range 2 {
		members.Go(func() {
			group, err := sarama.NewConsumerGroup(l.brokers, l.group, settings())
			must(err)
			for ctx.Err() == nil {
				must(group.Consume(ctx, []string{l.topic}, member{values}))
			}
			must(group.Close())
		})
	}
	seen := map[string]bool{}
	for ctx.Err() == nil && (len(seen) < total || !l.isShared(admin)) {
		select {
		case value := <-values:
			seen[value] = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	cancel()
	members.Wait()
	return len(seen)
}

func (l life) isShared(admin sarama.ClusterAdmin) bool {
	described, err := admin.DescribeConsumerGroups([]string{l.group})
	must(err)
	return described[0].State == "Stable" && len(described[0].Members) == 2
}

func (l life) ends() []int64 {
	client, err := sarama.NewClient(l.brokers, settings())
	must(err)
	defer client.Close()
	var ends []int64
	for at := range int32(3) {
		end, err := client.GetOffset(l.topic, at, sarama.OffsetNewest)
		must(err)
		ends = append(ends, end)
	}
	return ends
}

func (l life) transaction(prefix string, end func(sarama.SyncProducer) error) {
	config := settings()
	config.Producer.Transaction.ID = l.topic + "-txn"
	producer, err := sarama.NewSyncProducer(l.brokers, config)
	must(err)
	must(producer.BeginTxn())
	must(producer.SendMessages(l.messages(prefix, 30)))
	must(end(producer))
	must(producer.Close())
}

// What a reader of committed records finds, until it has as many as are due.
func (l life) readCommitted(due int) map[string]bool {
	config := settings()
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer(l.brokers, config)
	must(err)
	values := make(chan string, 2*due)
	for at := range int32(3) {
		part, err := consumer.ConsumePartition(l.topic, at, sarama.OffsetOldest)
		must(err)
		defer part.AsyncClose()
		go func() {
			for message := range part.Messages() {
				values <- string(message.Value)
			}
		}()
	}
	seen := map[string]bool{}
	for len(seen) < due {
		select {
		case value := <-values:
			seen[value] = true
		case <-time.After(time.Minute):
			return seen
		}
	}
	return seen
}

func (l life) retention(admin sarama.ClusterAdmin, want string) string {
	found := ""
	for tries := 0; tries < 50 && found != want; tries++ {
		entries, err := admin.DescribeConfig(sarama.ConfigResource{
			Type: sarama.TopicResource, Name: l.topic, ConfigNames: []string{"retention.ms"},
		})
		must(err)
		found = entries[0].Value
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

func sum(numbers []int64) int64 {
	var total int64
	for _, number := range numbers {
		total += number
	}
	return total
}

func must(err error) {
	if err != nil {
		log.Panic(err)
	}
}
