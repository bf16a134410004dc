import java.net.URI;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.autoscaler.JobAutoScalerContext;
import org.apache.flink.autoscaler.JobAutoScalerImpl;
import org.apache.flink.autoscaler.RestApiMetricsCollector;
import org.apache.flink.autoscaler.ScalingExecutor;
import org.apache.flink.autoscaler.ScalingMetricEvaluator;
import org.apache.flink.autoscaler.event.LoggingEventHandler;
import org.apache.flink.autoscaler.realizer.ScalingRealizer;
import org.apache.flink.autoscaler.state.InMemoryAutoScalerStateStore;
import org.apache.flink.autoscaler.tuning.ConfigChanges;
import org.apache.flink.client.program.rest.RestClusterClient;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.runtime.highavailability.nonha.standalone.StandaloneClientHAServices;
import org.apache.flink.runtime.jobgraph.JobResourceRequirements;
import org.apache.flink.runtime.jobgraph.JobVertexResourceRequirements;
import org.apache.flink.runtime.jobgraph.JobVertexResourceRequirements.Parallelism;
import org.apache.flink.runtime.rest.messages.EmptyRequestBody;
import org.apache.flink.runtime.rest.messages.JobMessageParameters;
import org.apache.flink.runtime.rest.messages.job.JobResourceRequirementsBody;
import org.apache.flink.runtime.rest.messages.job.JobResourceRequirementsHeaders;
import org.apache.flink.runtime.rest.messages.job.JobResourcesRequirementsUpdateHeaders;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Lets Flink's own autoscaler act on one job of a session cluster: the rival in {@code surescale demo flink}.
 *
 * <p>Collecting metrics, evaluating them and deciding are upstream's library {@code flink-autoscaler},
 * unchanged. Its standalone program, which calls the library in a loop, is published nowhere. This class is
 * that loop: it calls {@code scale} again and again, and sets what was decided through the REST API.
 *
 * <pre>java UpstreamAutoscaler REST_URL JOB_ID INTERVAL_SECONDS NAME=VALUE...</pre>
 */
public final class UpstreamAutoscaler
    implements ScalingRealizer<JobID, JobAutoScalerContext<JobID>> {
  private static final Logger LOG = LoggerFactory.getLogger(UpstreamAutoscaler.class);
  private static final Duration ANSWER_TIMEOUT = Duration.ofSeconds(10);

  private final String restUrl;
  private final JobID job;
  private final Configuration options;

  private UpstreamAutoscaler(URI restUrl, JobID job, Map<String, String> options) {
    this.restUrl = restUrl.toString();
    this.job = job;
    this.options = Configuration.fromMap(options);
  }

  public static void main(String[] arguments) throws Exception {
    Map<String, String> options = new HashMap<>();
    for (int at = 3; at < arguments.length; at++) {
      String[] option = arguments[at].split("=", 2);
      options.put(option[0], option[1]);
    }
    JobID job = JobID.fromHexString(arguments[1]);
    new UpstreamAutoscaler(URI.create(arguments[0]), job, options)
        .run(Duration.ofSeconds(Long.parseLong(arguments[2])));
  }

  /** Decide at a fixed pace, until this process is ended; a job that has ended is left alone. */
  private void run(Duration interval) throws InterruptedException {
    var store = new InMemoryAutoScalerStateStore<JobID, JobAutoScalerContext<JobID>>();
    var events = new LoggingEventHandler<JobID, JobAutoScalerContext<JobID>>();
    var autoscaler =
        new JobAutoScalerImpl<>(
            new RestApiMetricsCollector<>(),
            new ScalingMetricEvaluator(),
            new ScalingExecutor<>(events, store),
            events,
            this,
            store);
    while (true) {
      long began = System.nanoTime();
      try {
        JobStatus status = status();
        if (!status.isGloballyTerminalState()) {
          autoscaler.scale(
              new JobAutoScalerContext<>(
                  job, job, status, options, new UnregisteredMetricsGroup(), this::client));
        }
      } catch (Exception problem) {
        LOG.warn("the next round tries again", problem);
      }
      TimeUnit.NANOSECONDS.sleep(Math.max(0, interval.toNanos() - (System.nanoTime() - began)));
    }
  }

  /** Require what was decided of the vertices that it names; the others stay as they are. */
  @Override
  public void realizeParallelismOverrides(
      JobAutoScalerContext<JobID> context, Map<String, String> wanted) throws Exception {
    var parameters = new JobMessageParameters();
    parameters.jobPathParameter.resolve(job);
    try (var client = client()) {
      var asked =
          client
              .sendRequest(
                  new JobResourceRequirementsHeaders(), parameters, EmptyRequestBody.getInstance())
              .get(ANSWER_TIMEOUT.toSeconds(), TimeUnit.SECONDS)
              .asJobResourceRequirements()
              .orElseThrow()
              .getJobVertexParallelisms();
      var required = new HashMap<>(asked);
      for (var vertex : asked.keySet()) {
        String count = wanted.get(vertex.toHexString());
        if (count != null) {
          var parallelism = new Parallelism(1, Integer.parseInt(count));
          required.put(vertex, new JobVertexResourceRequirements(parallelism));
        }
      }
      if (!required.equals(asked)) {
        LOG.info("require {}", required);
        var body = new JobResourceRequirementsBody(new JobResourceRequirements(required));
        client
            .sendRequest(new JobResourcesRequirementsUpdateHeaders(), parameters, body)
            .get(ANSWER_TIMEOUT.toSeconds(), TimeUnit.SECONDS);
      }
    }
  }

  /** Do nothing: a session cluster's memory cannot be changed while it runs. */
  @Override
  public void realizeConfigOverrides(
      JobAutoScalerContext<JobID> context, ConfigChanges configChanges) {}

  private JobStatus status() throws Exception {
    try (var client = client()) {
      return client.getJobStatus(job).get(ANSWER_TIMEOUT.toSeconds(), TimeUnit.SECONDS);
    }
  }

  private RestClusterClient<String> client() throws Exception {
    return new RestClusterClient<>(
        options, "session", (configuration, errors) -> new StandaloneClientHAServices(restUrl));
  }
}
