import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/** Flink in this process: the statements of a file, all INSERTs as one job, which goes on from the newest checkpoint of a folder. */
public final class Job {
  public static void main(String[] args) throws Exception {
    var settings = new Configuration();
    settings.setString("parallelism.default", "1");
    settings.setString("taskmanager.numberOfTaskSlots", "8");
    settings.setString("taskmanager.memory.network.min", "64mb");
    settings.setString("taskmanager.memory.network.max", "64mb");
    settings.setString("rest.bind-port", "0");
    settings.setString("rest.address", "127.0.0.1");
    settings.setString("rest.bind-address", "127.0.0.1");
    settings.setString("restart-strategy.type", "fixed-delay");
    settings.setString("restart-strategy.fixed-delay.attempts", "1000");
    settings.setString("restart-strategy.fixed-delay.delay", "1 s");
    settings.setString("execution.checkpointing.interval", "1 s");
    settings.setString("execution.checkpointing.dir", Path.of(args[1]).toUri().toString());
    settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
    settings.setString("execution.checkpointing.tolerable-failed-checkpoints", "1000");
    settings.setString("table.local-time-zone", "UTC");
    if (args.length > 2) settings.setString("execution.state-recovery.path", args[2]);
    var tables = StreamTableEnvironment.create(StreamExecutionEnvironment.getExecutionEnvironment(settings));
    var inserts = tables.createStatementSet();
    for (var statement : Files.readString(Path.of(args[0])).split(";\\s*\n")) {
      if (statement.isBlank()) continue;
      if (statement.stripLeading().startsWith("INSERT")) inserts.addInsertSql(statement);
      else tables.executeSql(statement);
    }
    inserts.execute().await();
  }
}
