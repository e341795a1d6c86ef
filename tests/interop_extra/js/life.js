// A topic's life with kafkajs; what was seen goes to stdout as one JSON object.
//
//     NODE_PATH=.../node_modules node life.js live BOOTSTRAP TOPIC
//     NODE_PATH=.../node_modules node life.js die BOOTSTRAP TOPIC
'use strict';

const { CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs');

const [command, bootstrap, topic] = process.argv.slice(2);
const kafka = new Kafka({
  clientId: 'kafkajs',
  brokers: bootstrap.split(','),
  // It logs to stdout unless told otherwise.
  logCreator: () => ({ log }) => console.error(log.message),
  logLevel: logLevel.WARN,
});
const CODECS = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP };
const EACH = 200;
const group = `${topic}-group`;
const sum = (rows) => rows.reduce((total, row) => total + Number(row.offset), 0);

async function produce() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  for (const [codec, compression] of Object.entries(CODECS)) {
    const messages = Array.from({ length: EACH }, (_, at) => ({
      partition: at % 3, key: `k${at}`, value: `${codec}-${at}`, headers: { codec },
    }));
    await producer.send({ topic, acks: -1, compression, messages });
  }
  await producer.disconnect();
}

/** Members join, read until `enough` says so, and leave; the offsets they had reached are committed. */
async function read(members, settings, each, enough) {
  const consumers = await Promise.all(Array.from({ length: members }, async () => {
    const consumer = kafka.consumer({ groupId: group, ...settings });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      consumer.has = (payload.memberAssignment[topic] || []).length;
    });
    await consumer.run({ autoCommitThreshold: 50, eachMessage: async ({ message }) => each(message.value.toString()) });
    return consumer;
  }));
  const deadline = Date.now() + 90_000;
  while (!(await enough(consumers))) {
    if (Date.now() > deadline) throw new Error('the members did not read everything in time');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await Promise.all(consumers.map((consumer) => consumer.disconnect()));
}

async function transaction(prefix, end) {
  const producer = kafka.producer({
    transactionalId: `${topic}-txn`, idempotent: true, maxInFlightRequests: 1,
  });
  await producer.connect();
  const running = await producer.transaction();
  const messages = Array.from({ length: 30 }, (_, at) => ({
    partition: at % 3, value: `${prefix}-${at}`,
  }));
  await running.send({ topic, messages });
  await end(running);
  await producer.disconnect();
}

async function live(admin) {
  await admin.createTopics({
    topics: [{ topic, numPartitions: 3, replicationFactor: 3 }], waitForLeaders: true,
  });
  await produce();
  const total = EACH * Object.keys(CODECS).length;
  const seen = new Set();
  await read(2, {}, (value) => seen.add(value), async (consumers) =>
    seen.size >= total && consumers.every((consumer) => consumer.has > 0));
  const [offsets] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
  const ends = await admin.fetchTopicOffsets(topic);
  const { groups: [described] } = await admin.describeGroups([group]);

  // Aborted first: whoever has read the other one's records has passed by these.
  await transaction('dropped', (running) => running.abort());
  await transaction('kept', (running) => running.commit());
  const visible = new Set();
  await admin.resetOffsets({ groupId: group, topic, earliest: true });
  await read(1, { readUncommitted: false }, (value) => visible.add(value), async () =>
    visible.size >= total + 30);

  const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
  await admin.alterConfigs({
    resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '86400001' }] }],
  });
  const { resources: [{ configEntries }] } = await admin.describeConfigs({
    resources: [{ ...resource, configNames: ['retention.ms'] }],
  });
  await admin.createPartitions({ topicPartitions: [{ topic, count: 6 }] });

  const starting = (prefix) => [...visible].filter((value) => value.startsWith(prefix)).length;
  console.log(JSON.stringify({
    read: seen.size,
    committed: sum(offsets.partitions),
    ends: sum(ends),
    group: described.state.toLowerCase(),
    kept: starting('kept'),
    dropped: starting('dropped'),
    retention: configEntries[0].configValue,
  }));
}

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  if (command === 'live') {
    await live(admin);
  } else {
    await admin.deleteTopics({ topics: [topic] });
    await admin.deleteGroups([group]);
  }
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
