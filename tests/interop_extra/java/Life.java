// A topic's life with the Java clients; what was seen goes to stdout as one JSON object.
//
//     java -cp 'jars/*' Life.java live BOOTSTRAP TOPIC
//     java -cp 'jars/*' Life.java die BOOTSTRAP TOPIC

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Life {
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    static final int EACH = 200;
    static final Duration WAIT = Duration.ofMillis(500);

    final String bootstrap;
    final String topic;

    Life(String bootstrap, String topic) {
        this.bootstrap = bootstrap;
        this.topic = topic;
    }

    public static void main(String[] args) throws Exception {
        Life life = new Life(args[1], args[2]);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[1]))) {
            if (args[0].equals("live")) {
                life.live(admin);
            } else {
                admin.deleteTopics(List.of(life.topic)).all().get();
                admin.deleteConsumerGroups(List.of(life.topic + "-group")).all().get();
            }
        }
    }

    void live(Admin admin) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, 3, (short) 3))).all().get();
        for (String codec : CODECS) {
            produce(codec);
        }
        int total = EACH * CODECS.size();
        int read = consumeAsGroup(total);
        long committed = committedOffsets(admin);
        long ends = endOffsets(admin);
        String state = admin.describeConsumerGroups(List.of(topic + "-group")).all().get()
            .values().iterator().next().state().name().toLowerCase();
        // Aborted first: whoever has read the other one's records has passed by these.
        transaction("dropped", false);
        transaction("kept", true);
        Set<String> visible = readCommitted(total + 30);
        String retention = alterRetention(admin);
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(6))).all().get();
        System.out.printf(
            "{\"read\": %d, \"committed\": %d, \"ends\": %d, \"group\": \"%s\","
                + " \"kept\": %d, \"dropped\": %d, \"retention\": \"%s\"}%n",
            read, committed, ends, state,
            visible.stream().filter(value -> value.startsWith("kept")).count(),
            visible.stream().filter(value -> value.startsWith("dropped")).count(),
            retention);
    }

    void produce(String codec) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "acks", "all", "enable.idempotence", true,
            "compression.type", codec, "linger.ms", 5);
        try (var producer = producer(settings)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int at = 0; at < EACH; at++) {
                var record = new ProducerRecord<>(topic, at % 3, "k" + at, codec + "-" + at);
                record.headers().add("codec", codec.getBytes());
                sent.add(producer.send(record));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get();
            }
        }
    }

    /** Two members share the topic and read it to its end; how many different values they saw. */
    int consumeAsGroup(int total) throws Exception {
        Set<String> seen = new HashSet<>();
        try (var first = consumer("read_uncommitted"); var second = consumer("read_uncommitted")) {
            first.subscribe(List.of(topic));
            second.subscribe(List.of(topic));
            boolean shared = false;
            long deadline = System.nanoTime() + 90_000_000_000L;
            while ((!shared || positions(first) + positions(second) < total)
                && System.nanoTime() < deadline) {
                first.poll(WAIT).forEach(record -> seen.add(record.value()));
                second.poll(WAIT).forEach(record -> seen.add(record.value()));
                shared = !first.assignment().isEmpty() && !second.assignment().isEmpty();
            }
            if (!shared) {
                throw new IllegalStateException("one of two members got nothing");
            }
            first.commitSync();
            second.commitSync();
        }
        return seen.size();
    }

    static long positions(KafkaConsumer<String, String> consumer) {
        return consumer.assignment().stream().mapToLong(consumer::position).sum();
    }

    long committedOffsets(Admin admin) throws Exception {
        return admin.listConsumerGroupOffsets(topic + "-group")
            .partitionsToOffsetAndMetadata().get().values().stream()
            .mapToLong(OffsetAndMetadata::offset).sum();
    }

    long endOffsets(Admin admin) throws Exception {
        Map<TopicPartition, OffsetSpec> asked = partitions().stream()
            .collect(Collectors.toMap(at -> at, at -> OffsetSpec.latest()));
        return admin.listOffsets(asked).all().get().values().stream()
            .mapToLong(found -> found.offset()).sum();
    }

    void transaction(String prefix, boolean commit) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "transactional.id", topic + "-txn", "linger.ms", 5);
        try (var producer = producer(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            for (int at = 0; at < 30; at++) {
                producer.send(new ProducerRecord<>(topic, at % 3, null, prefix + "-" + at));
            }
            producer.flush();
            if (commit) {
                producer.commitTransaction();
            } else {
                producer.abortTransaction();
            }
        }
    }

    /** What a reader of committed records finds, until it has as many as are due. */
    Set<String> readCommitted(int due) {
        Set<String> seen = new HashSet<>();
        try (var consumer = consumer("read_committed")) {
            consumer.assign(partitions());
            consumer.seekToBeginning(partitions());
            long deadline = System.nanoTime() + 60_000_000_000L;
            while (seen.size() < due && System.nanoTime() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(WAIT)) {
                    seen.add(record.value());
                }
            }
        }
        return seen;
    }

    String alterRetention(Admin admin) throws Exception {
        var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        var change = new AlterConfigOp(
            new ConfigEntry("retention.ms", "86400001"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
        String found = "";
        for (int tries = 0; tries < 50 && !found.equals("86400001"); tries++) {
            found = admin.describeConfigs(List.of(resource)).all().get()
                .get(resource).get("retention.ms").value();
        }
        return found;
    }

    List<TopicPartition> partitions() {
        return List.of(
            new TopicPartition(topic, 0), new TopicPartition(topic, 1), new TopicPartition(topic, 2));
    }

    static KafkaProducer<String, String> producer(Map<String, Object> settings) {
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(String isolation) {
        return new KafkaConsumer<>(
            Map.of(
                "bootstrap.servers", bootstrap, "group.id", topic + "-group",
                "auto.offset.reset", "earliest", "enable.auto.commit", false,
                "isolation.level", isolation),
            new StringDeserializer(), new StringDeserializer());
    }
}
