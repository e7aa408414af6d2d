// Command clients is pgx at the SQL port: `clients <dsn>`.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, os.Args[1])
	check(err)
	defer connection.Close(ctx)
	_, err = connection.Exec(ctx, "CREATE TABLE of_pgx (id INT PRIMARY KEY, v TEXT) WITH (connector = 'webhook')")
	check(err)
	batch := &pgx.Batch{}
	for id := range 10 {
		batch.Queue("INSERT INTO of_pgx VALUES ($1, $2)", id, "Zoë ☕")
	}
	check(connection.SendBatch(ctx, batch).Close())
	_, err = connection.Exec(ctx, "INSERT INTO of_pgx VALUES ($1, $2)", 1, "again")
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "23505" {
		panic("a second row of the key")
	}
	rows := make([][]any, 1000)
	for i := range rows {
		rows[i] = []any{10 + i, "x"}
	}
	_, err = connection.CopyFrom(ctx, pgx.Identifier{"of_pgx"}, []string{"id", "v"}, pgx.CopyFromRows(rows))
	check(err)
	var count int
	check(connection.QueryRow(ctx, "SELECT count(*) FROM of_pgx").Scan(&count))
	if count != 1010 {
		panic("rows")
	}
}
