import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/** Debezium's embedded engine: each change is a line on standard output, and counts as read when it has been written there. */
public final class Reader {
  public static void main(String[] args) throws Exception {
    var properties = new Properties();
    try (var file = Files.newBufferedReader(Path.of(args[0]))) {
      properties.load(file);
    }
    var out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    DebeziumEngine<ChangeEvent<String, String>> engine =
        DebeziumEngine.create(Json.class)
            .using(properties)
            .notifying(
                (changes, committer) -> {
                  for (var change : changes) if (change.value() != null) out.append(change.value()).append('\n');
                  out.flush();
                  for (var change : changes) committer.markProcessed(change);
                  committer.markBatchFinished();
                })
            .using(
                (success, message, error) -> {
                  if (success) return;
                  System.err.println(message);
                  if (error != null) error.printStackTrace();
                })
            .build();
    engine.run();
  }
}
