import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
// 2.x has it in the package legacy; the recorder writes the import for 1.x.
import org.apache.flink.streaming.api.functions.source.legacy.SourceFunction;

/** Jobs whose answers are recorded. They need nothing but Flink. Arguments: NAME, and KIND: graph, legacy or chained. */
public class RecordedJob {
  private static final long KEYS = 97;

  public static void main(String[] arguments) throws Exception {
    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
    if (arguments[1].equals("legacy")) {
      legacy(env);
    } else if (arguments[1].equals("chained")) {
      chained(env);
    } else {
      graph(env);
    }
    env.execute(arguments[0]);
  }

  /** Every kind of edge, keyed state, a slot sharing group of its own, and a source that is held back. */
  private static void graph(StreamExecutionEnvironment env) {
    env.setMaxParallelism(64);
    env.disableOperatorChaining();
    DataStream<Long> numbers =
        env.fromSource(new NumberSequenceSource(0, Long.MAX_VALUE), WatermarkStrategy.noWatermarks(), "numbers").uid("numbers");
    DataStream<Long> parsed = numbers.rebalance().map(new Work(2_000_000)).returns(Long.class).name("parse").uid("parse");
    DataStream<Long> counted =
        parsed.keyBy(number -> number % KEYS).map(new Count()).returns(Long.class).name("count").uid("count");
    counted.forward().map(number -> number).returns(Long.class).name("format").uid("format").slotSharingGroup("late");
    counted.broadcast().sinkTo(new DiscardingSink<>()).name("sink").uid("sink");
  }

  /** A source of the old kind, whose busy time is not a number; no checkpoints, whatever the cluster's default. */
  private static void legacy(StreamExecutionEnvironment env) {
    env.getCheckpointConfig().disableCheckpointing();
    env.addSource(new Ticks()).returns(Long.class).name("ticks").uid("ticks").rebalance()
        .map(new Work(1_000_000)).returns(Long.class).name("work").uid("work");
  }

  /** All in one vertex, as Flink chains by default, so that it neither reads from another vertex nor writes to one. */
  private static void chained(StreamExecutionEnvironment env) {
    env.fromSource(new NumberSequenceSource(0, Long.MAX_VALUE), WatermarkStrategy.noWatermarks(), "numbers").uid("numbers")
        .map(new Work(2_000_000)).returns(Long.class).name("work").uid("work")
        .sinkTo(new DiscardingSink<>()).name("sink").uid("sink");
  }

  private static class Ticks implements SourceFunction<Long> {
    private volatile boolean goesOn = true;

    @Override
    public void run(SourceContext<Long> out) throws Exception {
      for (long number = 0; goesOn; number++) {
        synchronized (out.getCheckpointLock()) {
          out.collect(number);
        }
        Thread.sleep(10);
      }
    }

    @Override
    public void cancel() {
      goesOn = false;
    }
  }

  /** Waits a while per record: time of the subtask, but of no core. */
  private static class Work implements MapFunction<Long, Long> {
    private final long nanos;
    private long debt;

    Work(long nanos) {
      this.nanos = nanos;
    }

    @Override
    public Long map(Long number) throws Exception {
      debt += nanos;
      if (debt > 5_000_000L) {
        long began = System.nanoTime();
        Thread.sleep(debt / 1_000_000L);
        debt -= System.nanoTime() - began;
      }
      return number;
    }
  }

  private static class Count extends RichMapFunction<Long, Long> {
    private transient ValueState<Long> seen;

    @Override
    public void open(OpenContext context) {
      seen = getRuntimeContext().getState(new ValueStateDescriptor<>("seen", Long.class));
    }

    @Override
    public Long map(Long number) throws Exception {
      Long before = seen.value();
      seen.update(before == null ? 1L : before + 1);
      return number;
    }
  }
}
