import java.io.StringReader;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.Properties;
import org.postgresql.PGConnection;

/** JDBC at the SQL port in its four query modes: `Clients.java <host:port/database> <user> <password>`. */
class Clients {
  public static void main(String[] args) throws Exception {
    for (var mode : new String[] {"simple", "extended", "extendedForPrepared", "extendedCacheEverything"}) {
      var table = "of_jdbc_" + mode.toLowerCase();
      var options = new Properties();
      options.setProperty("user", args[1]);
      options.setProperty("password", args[2]);
      options.setProperty("preferQueryMode", mode);
      try (var connection = DriverManager.getConnection("jdbc:postgresql://" + args[0], options)) {
        connection.createStatement().execute(
            "CREATE TABLE " + table + " (id INT PRIMARY KEY, v TEXT) WITH (connector = 'webhook')");
        var insert = connection.prepareStatement("INSERT INTO " + table + " VALUES (?, ?)");
        for (var id = 0; id < 10; id++) {
          insert.setInt(1, id);
          insert.setString(2, "Zoë ☕");
          insert.addBatch();
        }
        insert.executeBatch();
        try {
          insert.setInt(1, 1);
          insert.setString(2, "again");
          insert.execute();
          throw new AssertionError("a second row of the key");
        } catch (SQLException error) {
          if (!"23505".equals(error.getSQLState())) throw error;
        }
        connection.unwrap(PGConnection.class).getCopyAPI()
            .copyIn("COPY " + table + " FROM STDIN", new StringReader("10\tten\n11\televen\n"));
        try (var columns = connection.getMetaData().getColumns(null, "public", table, null)) {
          if (!columns.next() || !"id".equals(columns.getString("COLUMN_NAME"))) throw new AssertionError("metadata");
        }
        var rows = connection.createStatement().executeQuery("SELECT count(*) FROM " + table);
        rows.next();
        if (rows.getInt(1) != 12) throw new AssertionError("rows: " + rows.getInt(1));
      }
    }
  }
}
