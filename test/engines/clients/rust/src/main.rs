//! tokio-postgres and sqlx at the SQL port: `clients <driver> <dsn>`. What is not as it should be ends with a panic.
use std::future::poll_fn;
use std::time::Duration;

use futures_util::SinkExt;
use serde_json::{Value, json};

type Done = Result<(), Box<dyn std::error::Error>>;

fn create(table: &str) -> String {
    format!("CREATE TABLE {table} (id INT PRIMARY KEY, v TEXT, j JSONB) WITH (connector = 'webhook')")
}

fn document() -> Value {
    json!({ "n": 100, "of": ["Zoë"] })
}

fn many() -> Vec<u8> {
    (10..1010).flat_map(|id| format!("{id}\tx\n").into_bytes()).collect()
}

async fn with_tokio_postgres(dsn: &str) -> Done {
    use tokio_postgres::error::SqlState;
    use tokio_postgres::{AsyncMessage, NoTls, connect};

    let (client, mut connection) = connect(dsn, NoTls).await?;
    let (hears, mut heard) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(said) = message {
                let _ = hears.send(said.payload().to_owned()).await;
            }
        }
    });
    client.batch_execute(&create("of_tokio_postgres")).await?;

    let insert = client.prepare("INSERT INTO of_tokio_postgres VALUES ($1, $2, $3)").await?;
    for id in 0..10 {
        client.execute(&insert, &[&id, &"Zoë ☕", &document()]).await?;
    }
    let refused = client.execute(&insert, &[&1, &"again", &Value::Null]).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::UNIQUE_VIOLATION));
    let row = client.query_one("SELECT v, j FROM of_tokio_postgres WHERE id = $1", &[&9]).await?;
    assert_eq!((row.get::<_, &str>(0), row.get::<_, Value>(1)), ("Zoë ☕", document()));

    let copying = client.copy_in("COPY of_tokio_postgres (id, v) FROM STDIN").await?;
    let mut copying = std::pin::pin!(copying);
    copying.send(std::io::Cursor::new(many())).await?;
    assert_eq!(copying.finish().await?, 1000);

    client.batch_execute("LISTEN of_tokio_postgres; NOTIFY of_tokio_postgres, 'called'").await?;
    assert_eq!(heard.recv().await.as_deref(), Some("called"));
    Ok(())
}

async fn with_sqlx(dsn: &str) -> Done {
    use sqlx::postgres::{PgListener, PgPool};

    let pool = PgPool::connect(dsn).await?;
    sqlx::raw_sql(&create("of_sqlx")).execute(&pool).await?;

    let insert = "INSERT INTO of_sqlx VALUES ($1, $2, $3)";
    for id in 0..10 {
        sqlx::query(insert).bind(id).bind("Zoë ☕").bind(document()).execute(&pool).await?;
    }
    let again = sqlx::query(insert).bind(1).bind("again").bind(Value::Null).execute(&pool).await;
    let refused = again.unwrap_err();
    assert_eq!(refused.as_database_error().and_then(|it| it.code()).as_deref(), Some("23505"));
    let select = sqlx::query_as("SELECT v, j FROM of_sqlx WHERE id = $1");
    let row: (String, Value) = select.bind(9).fetch_one(&pool).await?;
    assert_eq!(row, ("Zoë ☕".to_owned(), document()));

    let mut connection = pool.acquire().await?;
    let mut copying = connection.copy_in_raw("COPY of_sqlx (id, v) FROM STDIN").await?;
    copying.send(many()).await?;
    assert_eq!(copying.finish().await?, 1000);

    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen("of_sqlx").await?;
    sqlx::query("SELECT pg_notify($1, $2)").bind("of_sqlx").bind("called").execute(&pool).await?;
    assert_eq!(listener.recv().await?.payload(), "called");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, driver, dsn] = arguments.as_slice() else { panic!("clients <driver> <dsn>") };
    let done = async {
        match driver.as_str() {
            "tokio-postgres" => with_tokio_postgres(dsn).await,
            "sqlx" => with_sqlx(dsn).await,
            _ => panic!("no driver {driver}"),
        }
    };
    tokio::time::timeout(Duration::from_secs(30), done).await?
}
