import java.io.Serializable;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * A job to scale: source -> parse -> count -> sink, each a vertex of its own, from Kafka to Kafka.
 *
 * <p>A record is "key,number". Parse does the work of a record: so many rounds of arithmetic on a core, then a wait as on a
 * service that is asked. Count keeps how often it has seen the key and passes on "key,number,count", so that whoever reads the
 * output can tell whether a record or a piece of state was lost or doubled.
 *
 * <p>Arguments are pairs of --name and value; {@code services/local_stack/flink/scaled_job.py} lists them with their defaults.
 */
public class ScaledJob {
  private static final TypeInformation<Tuple2<String, Long>> RECORD = Types.TUPLE(Types.STRING, Types.LONG);

  public static void main(String[] given) throws Exception {
    Map<String, String> options = options(given);
    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
    env.setParallelism(number(options, "parallelism"));
    env.setMaxParallelism(number(options, "max-parallelism"));

    String uid = options.get("uid-prefix");
    DataStream<String> records =
        env.fromSource(source(options), WatermarkStrategy.noWatermarks(), "source").uid(uid + "source");
    boolean isForward = "true".equals(options.get("forward"));
    Work parseWork = new Work(number(options, "parse-rounds"), number(options, "parse-wait-micros"));
    Work countWork = new Work(number(options, "count-rounds"), number(options, "count-wait-micros"));
    SingleOutputStreamOperator<Tuple2<String, Long>> parsed =
        (isForward ? records : records.rebalance()).map(new Parse(parseWork)).returns(RECORD).name("parse").uid(uid + "parse").disableChaining();
    SingleOutputStreamOperator<String> counted =
        parsed.keyBy(record -> record.f0, Types.STRING).map(new Count(countWork)).name("count").uid(uid + "count").disableChaining();
    (isForward ? counted : counted.rebalance()).sinkTo(sink(options)).name("sink").uid(uid + "sink");
    env.execute(options.get("name"));
  }

  private static KafkaSource<String> source(Map<String, String> options) {
    return KafkaSource.<String>builder()
        .setBootstrapServers(options.get("bootstrap"))
        .setTopics(options.get("from"))
        .setGroupId(options.get("group"))
        .setStartingOffsets(OffsetsInitializer.earliest())
        .setValueOnlyDeserializer(new SimpleStringSchema())
        .build();
  }

  private static KafkaSink<String> sink(Map<String, String> options) {
    boolean isExactlyOnce = "true".equals(options.get("exactly-once"));
    return KafkaSink.<String>builder()
        .setBootstrapServers(options.get("bootstrap"))
        .setRecordSerializer(
            KafkaRecordSerializationSchema.<String>builder()
                .setTopic(options.get("to"))
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
        .setDeliveryGuarantee(isExactlyOnce ? DeliveryGuarantee.EXACTLY_ONCE : DeliveryGuarantee.AT_LEAST_ONCE)
        .setTransactionalIdPrefix(options.get("group"))
        // The connector's own default is longer than a broker allows by default.
        .setProperty("transaction.timeout.ms", Long.toString(Duration.ofMinutes(10).toMillis()))
        .build();
  }

  private static Map<String, String> options(String[] given) {
    Map<String, String> options = new HashMap<>();
    for (int i = 0; i + 1 < given.length; i += 2) {
      options.put(given[i].substring(2), given[i + 1]);
    }
    return options;
  }

  private static int number(Map<String, String> options, String name) {
    return Integer.parseInt(options.get(name));
  }

  /** What a record costs: arithmetic that takes a core, and a wait that takes none. Both are busy time to Flink. */
  private static class Work implements Serializable {
    private static final long PIECE_NANOS = 5_000_000L;
    private final int rounds;
    private final long waitNanos;
    private long owedNanos;
    private long mixed;

    Work(int rounds, int waitMicros) {
      this.rounds = rounds;
      this.waitNanos = waitMicros * 1000L;
    }

    void work(long seed) throws InterruptedException {
      for (int i = 0; i < rounds; i++) {
        mixed = (mixed ^ seed ^ i) * 0x9E3779B97F4A7C15L;
        mixed ^= mixed >>> 29;
      }
      // The system's clock of sleeps is coarse: waits are added up and taken in pieces.
      owedNanos += waitNanos;
      if (owedNanos >= PIECE_NANOS) {
        long began = System.nanoTime();
        Thread.sleep(owedNanos / 1_000_000L);
        owedNanos -= System.nanoTime() - began;
      }
    }
  }

  private static class Parse extends RichMapFunction<String, Tuple2<String, Long>> {
    private final Work work;

    Parse(Work work) {
      this.work = work;
    }

    @Override
    public Tuple2<String, Long> map(String record) throws Exception {
      int comma = record.lastIndexOf(',');
      long number = Long.parseLong(record.substring(comma + 1));
      work.work(number);
      return Tuple2.of(record.substring(0, comma), number);
    }
  }

  private static class Count extends RichMapFunction<Tuple2<String, Long>, String> {
    private final Work work;
    private transient ValueState<Long> seen;

    Count(Work work) {
      this.work = work;
    }

    @Override
    public void open(OpenContext context) {
      seen = getRuntimeContext().getState(new ValueStateDescriptor<>("seen", TypeInformation.of(new TypeHint<Long>() {})));
    }

    @Override
    public String map(Tuple2<String, Long> record) throws Exception {
      work.work(record.f1);
      Long before = seen.value();
      long count = before == null ? 1 : before + 1;
      seen.update(count);
      return record.f0 + "," + record.f1 + "," + count;
    }
  }
}
