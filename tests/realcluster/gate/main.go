// Command gate stands before kwok's kubelet endpoint and adds what a real kubelet knows and kwok does not: what runs in
// a container, with which code it ends, and that a followed log is over when its container has ended.
//
//	gate -listen ADDRESS -kwok ADDRESS -certificate FILE -key FILE -authority FILE -logs FOLDER -socket FILE
//
// Exec and attach are answered here, by the kubelet's own streaming server; the command runs behind the socket. The file
// LOGS/NAMESPACE/POD/CONTAINER.run holds the number of the container's instance, with " ended" behind it when that has
// ended: then, or when another instance runs, a followed log is over as soon as nothing has come for a moment.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	quiet = time.Second
	look  = 50 * time.Millisecond
)

type gate struct {
	logs     string
	executor executor
	proxy    *httputil.ReverseProxy
}

func main() {
	log.SetFlags(log.Lmicroseconds)
	listen := flag.String("listen", "", "address to serve on")
	kwok := flag.String("kwok", "", "address of kwok")
	certificate := flag.String("certificate", "", "serving certificate")
	key := flag.String("key", "", "its key")
	authority := flag.String("authority", "", "who signed kwok's certificate and those of our clients")
	logs := flag.String("logs", "", "folder of the log files")
	socket := flag.String("socket", "", "where commands are run")
	flag.Parse()

	pem, err := os.ReadFile(*authority)
	if err != nil {
		log.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	g := &gate{
		logs:     *logs,
		executor: executor{*socket},
		proxy:    httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: *kwok}),
	}
	g.proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	g.proxy.FlushInterval = -1
	g.proxy.ModifyResponse = g.endWithContainer
	server := &http.Server{
		Addr:      *listen,
		Handler:   g,
		TLSConfig: &tls.Config{ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"http/1.1"}},
	}
	log.Fatal(server.ListenAndServeTLS(*certificate, *key))
}

// ServeHTTP answers exec and attach, and passes all else on.
func (g *gate) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	target := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	if (target[0] == "exec" || target[0] == "attach") && len(target) >= 4 {
		g.executor.serve(writer, request, target)
		return
	}
	g.proxy.ServeHTTP(writer, request)
}

// endWithContainer lets a followed log end.
func (g *gate) endWithContainer(response *http.Response) error {
	request := response.Request
	rest, ok := strings.CutPrefix(request.URL.Path, "/containerLogs/")
	if ok && request.URL.Query().Get("follow") == "true" {
		response.Body = newFollowed(response.Body, filepath.Join(g.logs, filepath.Clean("/"+rest)+".run"))
	}
	return nil
}

// followed is a body that comes to its end when its container's instance is over and nothing has come for a moment.
type followed struct {
	io.ReadCloser
	chunks   chan []byte
	rest     []byte
	marker   string
	instance string
}

func newFollowed(body io.ReadCloser, marker string) *followed {
	f := &followed{ReadCloser: body, chunks: make(chan []byte), marker: marker, instance: readMarker(marker)}
	go func() {
		defer close(f.chunks)
		for {
			buffer := make([]byte, 32<<10)
			count, err := body.Read(buffer)
			if count > 0 {
				f.chunks <- buffer[:count]
			}
			if err != nil {
				return
			}
		}
	}()
	return f
}

func (f *followed) Read(target []byte) (int, error) {
	since := time.Now()
	for len(f.rest) == 0 {
		select {
		case chunk, open := <-f.chunks:
			if !open {
				return 0, io.EOF
			}
			f.rest = chunk
		case <-time.After(look):
			if f.isOver() && time.Since(since) > quiet {
				return 0, io.EOF
			}
		}
	}
	count := copy(target, f.rest)
	f.rest = f.rest[count:]
	return count, nil
}

func (f *followed) isOver() bool {
	now := readMarker(f.marker)
	return now != f.instance || strings.HasSuffix(now, " ended")
}

func readMarker(path string) string {
	text, _ := os.ReadFile(path) // absent is a state as well: the pod has not been prepared
	return string(text)
}

// Close ends the pump as well.
func (f *followed) Close() error {
	err := f.ReadCloser.Close()
	go func() {
		for range f.chunks {
		}
	}()
	return err
}
