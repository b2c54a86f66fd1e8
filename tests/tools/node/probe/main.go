// The workload of the node tests. It is a Pod like those of compute-federation: it serves probes over HTTP and one page
// over TLS with the certificate of a mounted volume.
//
//	probe serve                serves until SIGTERM
//	probe get URL CA-FILE      gets a page of another Pod, by its name in the DNS of the cluster
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// certificates is the directory of the serving certificate. The volume of a CSI driver is mounted there.
const certificates = "/certificates"

// pair loads the certificate for each handshake, so a renewed certificate is used at once.
func pair(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	loaded, err := tls.LoadX509KeyPair(certificates+"/tls.crt", certificates+"/tls.key")
	return &loaded, err
}

// serve is ready only while it can read its certificate. The readiness probe of the Pod thus checks the volume.
func serve() error {
	health := http.NewServeMux()
	health.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	health.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := pair(nil); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "user %d, group %d", os.Getuid(), os.Getgid())
	})
	server := &http.Server{Addr: ":9443", Handler: page, TLSConfig: &tls.Config{GetCertificate: pair}}

	failed := make(chan error, 2)
	go func() { failed <- http.ListenAndServe(":8080", health) }()
	go func() { failed <- server.ListenAndServeTLS("", "") }()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func get(url, ca string) error {
	authority, err := os.ReadFile(ca)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	answer, err := client.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	fmt.Println(answer.Status, string(body))
	return nil
}

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "serve":
		err = serve()
	case len(os.Args) == 4 && os.Args[1] == "get":
		err = get(os.Args[2], os.Args[3])
	default:
		err = fmt.Errorf("usage: probe serve | probe get URL CA-FILE")
	}
	if err != nil {
		log.Fatal(err)
	}
}
