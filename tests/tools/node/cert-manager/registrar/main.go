// Registers a CSI driver with the kubelet. The Go module proxy does not serve node-driver-registrar, which does the
// same in production.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// started is the time limit for the driver to answer.
const started = time.Minute

// server answers the kubelet, which finds the socket of this server in its directory of plugins.
type server struct {
	registration.UnimplementedRegistrationServer
	driver, endpoint string
}

func (s server) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              s.driver,
		Endpoint:          s.endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (s server) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !status.PluginRegistered {
		log.Fatalf("the kubelet refused %s: %s", s.driver, status.Error)
	}
	log.Printf("registered %s at %s", s.driver, s.endpoint)
	return &registration.RegistrationStatusResponse{}, nil
}

// driverName asks the driver for its name. It waits until the driver serves.
func driverName(socket string) (string, error) {
	connection, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), started)
	defer cancel()
	info, err := csi.NewIdentityClient(connection).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	return info.GetName(), err
}

func run() error {
	socket := flag.String("csi-address", "/plugin/csi.sock", "the socket of the driver in this container")
	endpoint := flag.String("kubelet-registration-path", "", "the socket of the driver on the node")
	directory := flag.String("registration-dir", "/registration", "the kubelet's directory of plugins in this container")
	flag.Parse()

	driver, err := driverName(*socket)
	if err != nil {
		return err
	}
	path := filepath.Join(*directory, driver+"-reg.sock")
	// The socket of a former container prevents the new one. A missing file is no error.
	_ = os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	grpcServer := grpc.NewServer()
	registration.RegisterRegistrationServer(grpcServer, server{driver: driver, endpoint: *endpoint})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { <-ctx.Done(); grpcServer.Stop() }()
	return grpcServer.Serve(listener)
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
