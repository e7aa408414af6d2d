// The peer of the comparison: what a Go team would write by hand to be as fast as it can. fasthttp reads the request and checks GitHub's signature; what
// has arrived while the last group was being written goes into the table together, by one COPY of pgx, and is answered when that has committed.
// `peer SECRET DSN TABLE WRITERS` prints its port.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/valyala/fasthttp"
)

// Requests in one COPY, and requests that wait for one.
const (
	groupMax   = 1024
	waitingMax = 4096
)

type waiting struct {
	body []byte
	done chan error
}

type store struct {
	pool    *pgxpool.Pool
	table   pgx.Identifier
	waiting chan waiting
}

// The body stays valid until the handler has returned, which waits for this.
func (s *store) add(body []byte) error {
	one := waiting{body, make(chan error, 1)}
	s.waiting <- one
	return <-one.done
}

func (s *store) write() {
	group := make([]waiting, 0, groupMax)
	for one := range s.waiting {
		group = append(group[:0], one)
	more:
		for len(group) < groupMax {
			select {
			case next := <-s.waiting:
				group = append(group, next)
			default:
				break more
			}
		}
		s.settle(group)
	}
}

// A group that fails is tried one by one, so that nobody is refused because of a neighbour.
func (s *store) settle(group []waiting) {
	err := s.copy(group)
	if err != nil && len(group) > 1 {
		for i := range group {
			s.settle(group[i : i+1])
		}
		return
	}
	for _, one := range group {
		one.done <- err
	}
}

func (s *store) copy(group []waiting) error {
	rows := pgx.CopyFromSlice(len(group), func(i int) ([]any, error) { return []any{group[i].body}, nil })
	_, err := s.pool.CopyFrom(context.Background(), s.table, []string{"data"}, rows)
	return err
}

func isSigned(secret []byte, ctx *fasthttp.RequestCtx) bool {
	mac := hmac.New(sha256.New, secret)
	mac.Write(ctx.PostBody())
	expected := hex.AppendEncode([]byte("sha256="), mac.Sum(nil))
	return hmac.Equal(ctx.Request.Header.Peek("X-Hub-Signature-256"), expected)
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("peer SECRET DSN TABLE WRITERS")
	}
	secret, dsn, table := []byte(os.Args[1]), os.Args[2], os.Args[3]
	writers, err := strconv.Atoi(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	pool, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		log.Fatal(err)
	}
	rows := &store{pool, pgx.Identifier{table}, make(chan waiting, waitingMax)}
	for range writers {
		go rows.write()
	}
	server := &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			if !isSigned(secret, ctx) {
				ctx.SetStatusCode(fasthttp.StatusUnauthorized)
			} else if err := rows.add(ctx.PostBody()); err != nil {
				ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
			} else {
				ctx.SetContentType("application/json")
				ctx.SetBodyString(`{"rows":1}`)
			}
		},
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-stop
		os.Exit(0)
	}()
	log.Fatal(server.Serve(listener))
}
