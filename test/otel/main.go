// The OTLP receiver of the OpenTelemetry collector on a free port of loopback. Each message that it has decoded is a line on standard output, written by
// the collector's own marshaler; the first line is the receiver's address. Ends with its standard input.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

var printing sync.Mutex

func tell(text []byte, err error) error {
	if err != nil {
		return err
	}
	printing.Lock()
	defer printing.Unlock()
	_, err = fmt.Printf("%s\n", text)
	return err
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	free := must(net.Listen("tcp", "127.0.0.1:0"))
	address := free.Addr().String()
	free.Close()
	ctx := context.Background()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = address
	traces := must(consumer.NewTraces(func(_ context.Context, spans ptrace.Traces) error {
		return tell((&ptrace.JSONMarshaler{}).MarshalTraces(spans))
	}))
	metrics := must(consumer.NewMetrics(func(_ context.Context, all pmetric.Metrics) error {
		return tell((&pmetric.JSONMarshaler{}).MarshalMetrics(all))
	}))
	settings := receivertest.NewNopSettings(factory.Type())
	host := componenttest.NewNopHost()
	spans := must(factory.CreateTraces(ctx, settings, config, traces))
	counts := must(factory.CreateMetrics(ctx, settings, config, metrics))
	must(0, spans.Start(ctx, host))
	must(0, counts.Start(ctx, host))
	must(0, tell([]byte(address), nil))
	io.Copy(io.Discard, os.Stdin)
	must(0, spans.Shutdown(ctx))
	must(0, counts.Shutdown(ctx))
}
