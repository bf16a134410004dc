import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;

import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/** A real member of a group that is no consumer group: a Kafka Streams application (KIP-1071), or a share consumer (KIP-932). */
public final class GroupMembers {
    public static void main(String[] args) throws Exception {
        String kind = args[0], bootstrap = args[1], group = args[2], topic = args[3], folder = args[4];
        if (kind.equals("share")) share(bootstrap, group, topic); else streams(bootstrap, group, topic, folder);
    }

    private static void share(String bootstrap, String group, String topic) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", group);
        try (var consumer = new KafkaShareConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (true) consumer.poll(Duration.ofMillis(200));  // the next poll acknowledges what this one returned
        }
    }

    private static void streams(String bootstrap, String group, String topic, String folder) {
        Properties settings = new Properties();
        settings.putAll(Map.of("application.id", group, "bootstrap.servers", bootstrap, "group.protocol", "streams",
            "state.dir", folder, "commit.interval.ms", 1000, "num.stream.threads", 1,
            "default.key.serde", Serdes.StringSerde.class, "default.value.serde", Serdes.StringSerde.class));
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(topic).groupBy((key, value) -> value)
            .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")));
        KafkaStreams application = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(application::close));
        application.setStateListener((now, before) -> System.out.println(now));
        application.start();
    }
}
