// The Java clients before a secured cluster: a task is a line on stdin, its outcome a line on stdout.
//
//     java -cp 'jars/*' Doors.java
//     live  PROPERTIES NAME   create a topic, write to it in a transaction, read it in a group
//     knock PROPERTIES -      try to get in
//     write PROPERTIES TOPIC  try to write to a topic

import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Doors {
    static final long PATIENCE_S = 20;

    public static void main(String[] args) throws Exception {
        BufferedReader tasks = new BufferedReader(new InputStreamReader(System.in));
        for (String line = tasks.readLine(); line != null; line = tasks.readLine()) {
            String[] words = line.split("\t");
            Properties config = new Properties();
            try (FileReader file = new FileReader(words[1])) {
                config.load(file);
            }
            // Since 4.0 a token is read only from where this says that it may be.
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls",
                config.getProperty("sasl.oauthbearer.token.endpoint.url", ""));
            String outcome;
            try {
                outcome = outcome(words[0], config, words[2]);
            } catch (Exception fault) {
                outcome = named(fault);
            }
            System.out.println("= " + outcome.replace('\n', ' '));
        }
    }

    static String outcome(String task, Properties config, String name) throws Exception {
        switch (task) {
            case "live": return live(config, name);
            case "knock": return knock(config);
            default: return write(config, name);
        }
    }

    static String live(Properties config, String name) throws Exception {
        try (Admin admin = Admin.create(config)) {
            admin.createTopics(List.of(new NewTopic(name, 1, (short) 2))).all().get(PATIENCE_S, TimeUnit.SECONDS);
        }
        Properties writing = with(config, "transactional.id", name);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(writing, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(name, "a coat"));
            producer.commitTransaction();
        }
        Properties reading = with(config, "group.id", name);
        reading.put("auto.offset.reset", "earliest");
        reading.put("isolation.level", "read_committed");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(name));
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
            while (System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    consumer.commitSync();
                    return record.value();
                }
            }
        }
        return "nothing was read";
    }

    static String knock(Properties config) throws Exception {
        try (Admin admin = Admin.create(config)) {
            admin.describeCluster().nodes().get(PATIENCE_S, TimeUnit.SECONDS);
            return "let in";
        } catch (ExecutionException refused) {
            if (refused.getCause() instanceof AuthenticationException) {
                return "not let in";
            }
            throw refused;
        }
    }

    static String write(Properties config, String topic) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "a coat")).get(PATIENCE_S, TimeUnit.SECONDS);
            return "written";
        } catch (ExecutionException refused) {
            if (refused.getCause() instanceof TopicAuthorizationException) {
                return "denied";
            }
            throw refused;
        }
    }

    static Properties with(Properties config, String key, String value) {
        Properties more = new Properties();
        more.putAll(config);
        more.put(key, value);
        return more;
    }

    static String named(Throwable fault) {
        StringBuilder text = new StringBuilder();
        for (Throwable at = fault; at != null; at = at.getCause()) {
            text.append(at).append(" <- ");
        }
        return text.toString();
    }
}
