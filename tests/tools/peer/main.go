// Program peer is the Go webhook that compute-federation's interpreter is compared with. It gives the same answers
// for WorkloadDeployment and Instance, and uses Karmada's own server SDK and controller-runtime's webhook server.
package main

import (
	"flag"
	"os"

	"github.com/karmada-io/karmada/pkg/webhook/interpreter"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	controllerruntime "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

func main() {
	host := flag.String("bind-address", "127.0.0.1", "address to serve at")
	port := flag.Int("port", 9443, "port to serve at")
	certDir := flag.String("cert-dir", "", "directory with tls.crt and tls.key")
	flag.Parse()
	controllerruntime.SetLogger(klog.Background())

	server := webhook.NewServer(webhook.Options{Host: *host, Port: *port, CertDir: *certDir})
	decoder := interpreter.NewDecoder(runtime.NewScheme())
	server.Register("/interpret", interpreter.NewWebhook(&handler{}, decoder))
	if err := server.Start(controllerruntime.SetupSignalHandler()); err != nil {
		klog.ErrorS(err, "not served")
		os.Exit(1)
	}
}
