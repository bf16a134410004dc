// Command keda asks an external scaler what KEDA's operator asks it, with KEDA's own generated client and its options, and prints
// each answer, or why there is none, as JSON.
//
//	keda ADDRESS CA_FILE KEY=VALUE...      an empty CA_FILE: no TLS
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strings"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

type answers struct {
	Spec         any `json:"spec"`
	Metrics      any `json:"metrics"`
	Active       any `json:"active"`
	Streamed     any `json:"streamed"`
	StreamedSpec any `json:"streamedSpec"`
}

func told(answer any, err error) any {
	if err == nil {
		return answer
	}
	said := status.Convert(err)
	return map[string]string{"code": said.Code().String(), "message": said.Message()}
}

func main() {
	address, ca, metadata := os.Args[1], os.Args[2], map[string]string{}
	for _, word := range os.Args[3:] {
		key, value, _ := strings.Cut(word, "=")
		metadata[key] = value
	}
	security := insecure.NewCredentials()
	if ca != "" {
		var err error
		if security, err = credentials.NewClientTLSFromFile(ca, ""); err != nil {
			log.Fatal(err)
		}
	}
	// As buildGRPCConnection of KEDA 2.21.0.
	balanced := grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin":{}}]}`)
	connection, err := grpc.NewClient(address, balanced, grpc.WithTransportCredentials(security))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client, found := pb.NewExternalScalerClient(connection), answers{}
	ref := &pb.ScaledObjectRef{Name: "orders", Namespace: "shop", ScalerMetadata: metadata}
	spec, err := client.GetMetricSpec(ctx, ref)
	found.Spec = told(spec.GetMetricSpecs(), err)
	name := ""
	if specs := spec.GetMetricSpecs(); len(specs) > 0 {
		name = specs[0].GetMetricName()
	}
	metrics, err := client.GetMetrics(ctx, &pb.GetMetricsRequest{ScaledObjectRef: ref, MetricName: name})
	found.Metrics = told(metrics.GetMetricValues(), err)
	active, err := client.IsActive(ctx, ref)
	found.Active = told(active.GetResult(), err)
	if stream, err := client.StreamIsActive(ctx, ref); err == nil {
		first, err := stream.Recv()
		found.Streamed = told(first.GetResult(), err)
	}
	if stream, err := client.StreamMetricSpec(ctx, ref); err == nil {
		first, err := stream.Recv()
		found.StreamedSpec = told(first.GetMetricSpecs(), err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}
