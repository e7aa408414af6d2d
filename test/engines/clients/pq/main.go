// Command pq is lib/pq at the SQL port: `pq <dsn>`.
package main

import (
	"database/sql"
	"errors"
	"os"
	"time"

	"github.com/lib/pq"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func require(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

func main() {
	dsn := os.Args[1] + "?sslmode=disable"
	database, err := sql.Open("postgres", dsn)
	check(err)
	defer database.Close()
	_, err = database.Exec("CREATE TABLE of_pq (id INT PRIMARY KEY, v TEXT, j JSONB) WITH (connector = 'webhook')")
	check(err)

	insert, err := database.Prepare("INSERT INTO of_pq VALUES ($1, $2, $3)")
	check(err)
	for id := range 10 {
		_, err = insert.Exec(id, "Zoë ☕", `{"n": 1e2, "of": ["Zoë"]}`)
		check(err)
	}
	_, err = insert.Exec(1, "again", nil)
	var refused *pq.Error
	require(errors.As(err, &refused) && refused.Code == "23505", "a second row of the key")
	var text string
	var json []byte
	check(database.QueryRow("SELECT v, j FROM of_pq WHERE id = $1", 9).Scan(&text, &json))
	require(text == "Zoë ☕" && string(json) == `{"n": 100, "of": ["Zoë"]}`, "a row as it was written: "+string(json))

	transaction, err := database.Begin()
	check(err)
	copying, err := transaction.Prepare(pq.CopyIn("of_pq", "id", "v"))
	check(err)
	for id := range 1000 {
		_, err = copying.Exec(10+id, "x")
		check(err)
	}
	_, err = copying.Exec()
	check(err)
	check(copying.Close())
	check(transaction.Commit())
	var count int
	check(database.QueryRow("SELECT count(*) FROM of_pq").Scan(&count))
	require(count == 1010, "rows")

	listener := pq.NewListener(dsn, time.Second, time.Minute, nil)
	defer listener.Close()
	check(listener.Listen("of_pq"))
	_, err = database.Exec("SELECT pg_notify('of_pq', 'called')")
	check(err)
	select {
	case said := <-listener.Notify:
		require(said != nil && said.Extra == "called", "what was called")
	case <-time.After(10 * time.Second):
		panic("nothing was heard")
	}
}
