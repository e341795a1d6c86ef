// A group of the new protocol (KIP-848) with the Java clients; what was seen goes to stdout as JSON.
//
//     java -cp 'jars/*' Groups.java BOOTSTRAP TOPIC TOTAL

import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Groups {
    static final Duration WAIT = Duration.ofMillis(200);

    public static void main(String[] args) throws Exception {
        String bootstrap = args[0];
        String topic = args[1];
        int total = Integer.parseInt(args[2]);
        Set<String> seen = new HashSet<>();
        String described;
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            try (var first = consumer(bootstrap, topic); var second = consumer(bootstrap, topic)) {
                first.subscribe(List.of(topic));
                second.subscribe(new SubscriptionPattern(topic + ".*"));
                long deadline = System.nanoTime() + 90_000_000_000L;
                while (first.assignment().isEmpty() || second.assignment().isEmpty()
                    || positions(first) + positions(second) < total) {
                    if (System.nanoTime() > deadline) {
                        throw new IllegalStateException("the group does not come to rest");
                    }
                    first.poll(WAIT).forEach(record -> seen.add(record.value()));
                    second.poll(WAIT).forEach(record -> seen.add(record.value()));
                }
                first.commitSync();
                commitInTransaction(bootstrap, topic, second);
                described = describe(admin, topic);
            }
            long committed = admin.listConsumerGroupOffsets(topic)
                .partitionsToOffsetAndMetadata().get().values().stream()
                .mapToLong(OffsetAndMetadata::offset).sum();
            System.out.printf(
                "{\"read\": %d, \"committed\": %d, \"group\": \"%s\"}%n",
                seen.size(), committed, described);
        }
    }

    /** The member's place is proven by its epoch when it commits within a transaction, too. */
    static void commitInTransaction(
        String bootstrap, String topic, KafkaConsumer<String, String> consumer) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "transactional.id", topic + "-txn");
        try (var producer = new KafkaProducer<>(
            settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(
                consumer.assignment().stream().collect(Collectors.toMap(
                    at -> at, at -> new OffsetAndMetadata(consumer.position(at)))),
                consumer.groupMetadata());
            producer.commitTransaction();
        }
    }

    static String describe(Admin admin, String topic) throws Exception {
        ConsumerGroupDescription group = admin.describeConsumerGroups(List.of(topic))
            .describedGroups().get(topic).get();
        return String.join(" ",
            group.type().toString(), group.groupState().toString(), group.partitionAssignor(),
            "members=" + group.members().size(),
            "partitions=" + group.members().stream()
                .mapToInt(member -> member.assignment().topicPartitions().size()).sum());
    }

    static long positions(KafkaConsumer<String, String> consumer) {
        return consumer.assignment().stream().mapToLong(consumer::position).sum();
    }

    static KafkaConsumer<String, String> consumer(String bootstrap, String group) {
        return new KafkaConsumer<>(
            Map.of(
                "bootstrap.servers", bootstrap, "group.id", group, "group.protocol", "consumer",
                "auto.offset.reset", "earliest", "enable.auto.commit", false),
            new StringDeserializer(), new StringDeserializer());
    }
}
